"""Sessions that WhatsApp banned: for good, started only after a confirmation; for a time, started when it is over."""

import time
from typing import Any

import httpx
import pytest

from tests.orchestrator.conftest import PROXIES
from tests.orchestrator.fakes import FakeCheck, FakeRunner, Teller, drive, part
from tests.orchestrator.session_steps import PHONE, code_of, linked, now, provision
from wa_orchestrator.domain.proxies import proxy_url
from wa_orchestrator.domain.sessions.session import Reason
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.sessions import ban_end
from wa_orchestrator.orchestrator.workers.watchdog import ExitWatcher
from wa_orchestrator.store import keys

CONFIRMED = {"confirm": "BANNED"}


@pytest.fixture
async def banned(control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner) -> str:
    """A session that was linked and is banned now; its proxy."""
    await linked(control, api, teller, "s1", PHONE)
    await teller.disconnected("s1", 403)
    runner.die("s1")  # as a worker does after a ban
    await part(control, ExitWatcher).step()
    session = await now(control.context, "s1")
    assert session.reason == Reason.BANNED
    return session.proxy


@pytest.mark.parametrize("verb", ["start", "restart"])
async def test_a_banned_session_starts_only_after_a_question_and_that_is_in_the_audit_log(
    control: Orchestrator, api: httpx.AsyncClient, runner: FakeRunner, banned: str, verb: str
) -> None:
    refused = await api.post(f"/api/sessions/s1/{verb}")
    assert (refused.status_code, await code_of(refused)) == (409, "CONFIRMATION_REQUIRED")
    assert "banned" in refused.json()["error"]["message"]
    again = await provision(api, sessionId="s1")
    assert (again.status_code, await code_of(again)) == (409, "CONFIRMATION_REQUIRED")
    await drive(control)
    assert not runner.epochs()
    assert (await api.post(f"/api/sessions/s1/{verb}", json=CONFIRMED)).status_code == 200
    await drive(control)
    assert list(runner.epochs()) == ["s1"]
    assert (await now(control.context, "s1")).proxy == banned
    newest = (await api.get("/api/v1/audit")).json()["entries"][0]
    assert (newest["action"], newest["details"]) == (f"session.{verb}", '{"confirmed": "BANNED"}')


async def test_a_stop_does_not_hide_that_a_session_is_banned(
    api: httpx.AsyncClient, control: Orchestrator, teller: Teller, banned: str
) -> None:
    await api.post("/api/sessions/s1/stop")
    refused = await api.post("/api/sessions/s1/start")
    assert await code_of(refused) == "CONFIRMATION_REQUIRED"
    await api.post("/api/sessions/s1/start", json=CONFIRMED)
    await drive(control)
    await teller.connected("s1", PHONE)
    assert (await api.post("/api/sessions/s1/restart")).status_code == 200


async def test_a_banned_session_never_logs_in_through_another_proxy(
    control: Orchestrator, api: httpx.AsyncClient, runner: FakeRunner, check: FakeCheck, banned: str
) -> None:
    check.dead.add(next(url for url in PROXIES if proxy_url.proxy_id(url) == banned))
    for _ in range(3):
        await control.proxy_health.check(banned)
    await api.post("/api/sessions/s1/start", json=CONFIRMED)
    await drive(control)
    session = await now(control.context, "s1")
    assert (session.proxy, session.reason) == (banned, Reason.GIVEN_PROXY_BAD)
    assert not runner.epochs()


@pytest.fixture
async def suspended(
    control: Orchestrator,
    api: httpx.AsyncClient,
    teller: Teller,
    runner: FakeRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """A session that WhatsApp banned for an hour; its proxy."""
    monkeypatch.setattr(ban_end, "LEAST_REST_MS", 0)
    await linked(control, api, teller, "s1", PHONE)
    await _suspend(teller, ends_in_ms=3_600_000)
    runner.die("s1")
    await part(control, ExitWatcher).step()
    session = await now(control.context, "s1")
    assert session.reason == Reason.TEMPORARY_BAN
    return session.proxy


async def _suspend(teller: Teller, *, ends_in_ms: int) -> None:
    ends = round(time.time() * 1000) + ends_in_ms
    data = {"reason": "TEMPORARY_BAN", "code": 402, "willReconnect": False, "expiresAt": ends}
    await teller.tell("s1", "DISCONNECTED", data)


async def _time_passes(control: Orchestrator, past_ms: int = 1) -> None:
    """Let the ban have ended, as if the hour were over, and let the server look."""
    ended = round(time.time() * 1000) - past_ms
    await control.context.redis.hset(keys.session("s1"), "ban_ends_at", ended)
    await ban_end.start_when_over(control.context)
    await drive(control)


async def test_a_suspended_session_comes_back_by_itself_when_the_ban_ends_and_not_before(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner, suspended: str
) -> None:
    await ban_end.start_when_over(control.context)
    await drive(control)
    assert not runner.epochs()
    told = (await api.get("/api/sessions/s1")).json()
    assert (told["status"], told["needsPerson"]) == ("failed", False)
    await _time_passes(control)
    assert list(runner.epochs()) == ["s1"]
    await teller.connected("s1", PHONE)
    session = await now(control.context, "s1")
    assert (session.status, session.proxy) == ("connected", suspended)
    written: Any = await control.context.redis.xrange(keys.EVENTS)
    assert any(fields.get("what") == "BAN_ENDED" for _, fields in written)


async def test_a_suspended_session_that_the_operator_stopped_stays_stopped(
    control: Orchestrator, api: httpx.AsyncClient, runner: FakeRunner, suspended: str
) -> None:
    await api.post("/api/sessions/s1/stop")
    await _time_passes(control)
    assert not runner.epochs()
    assert (await now(control.context, "s1")).reason == Reason.STOPPED_BY_OPERATOR


async def test_a_permanent_ban_never_ends_by_itself(
    control: Orchestrator, runner: FakeRunner, banned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ban_end, "LEAST_REST_MS", 0)
    await _time_passes(control)
    assert not runner.epochs()


async def test_a_ban_that_is_renewed_at_once_does_not_become_a_login_every_few_seconds(
    control: Orchestrator, teller: Teller, runner: FakeRunner, suspended: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _time_passes(control)
    monkeypatch.setattr(ban_end, "LEAST_REST_MS", 300_000)
    await _suspend(teller, ends_in_ms=1)
    runner.die("s1")
    await part(control, ExitWatcher).step()
    await _time_passes(control)
    assert not runner.epochs()
    assert (await now(control.context, "s1")).reason == Reason.TEMPORARY_BAN
