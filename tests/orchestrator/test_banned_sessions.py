"""Sessions that WhatsApp banned: started only after a confirmation, and on the same proxy."""

import httpx
import pytest

from tests.orchestrator.conftest import PROXIES
from tests.orchestrator.fakes import FakeCheck, FakeRunner, Teller, drive, part
from tests.orchestrator.session_steps import PHONE, code_of, linked, now, provision
from wa_orchestrator.domain import proxy_url
from wa_orchestrator.domain.session import Reason
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.workers.reconciler import ExitWatcher

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
