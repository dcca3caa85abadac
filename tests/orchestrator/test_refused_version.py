"""A wave of 405: no session needs a person, one asks for all, and its success brings all back."""

import time
from pathlib import Path

import httpx
import pytest

from tests.orchestrator.fakes import FakeRunner, Teller, drive, part
from tests.orchestrator.session_steps import linked, now
from wa_orchestrator.domain.sessions.session import Reason, State
from wa_orchestrator.domain.sessions.version_recovery import RETRY_AFTER_MS
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.sessions import version_recovery
from wa_orchestrator.orchestrator.workers.watchdog import ExitWatcher
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys

FLEET = [f"s{n:02}" for n in range(50)]
REFUSED, ACCEPTED = 100, 200


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    return settings.model_copy(update={"max_sessions_per_proxy": len(FLEET)})


def phone(session: str) -> str:
    return f"9725012345{session[1:]}"


async def refuse(control: Orchestrator, teller: Teller, runner: FakeRunner, *sessions: str) -> None:
    """Be refused with 405, and end, as a worker does that has found no newer version."""
    for each in sessions:
        data = {"reason": "CLIENT_OUTDATED", "code": 405, "willReconnect": False, "revision": REFUSED}
        await teller.tell(each, "DISCONNECTED", data)
        runner.die(each)
    await part(control, ExitWatcher).step()


async def time_passes(control: Orchestrator, ms: int) -> None:
    """Let everything that is recorded be so much older, and let the server look."""
    redis = control.context.redis
    for each in FLEET:
        await redis.hincrby(keys.session(each), "changed_at", -ms)
    for field in ("trial_at", "login_at"):
        if await redis.hexists(keys.CLIENT_VERSION, field):
            await redis.hincrby(keys.CLIENT_VERSION, field, -ms)
    await version_recovery.step(control.context)
    for _ in FLEET:
        await drive(control)


async def test_a_wave_of_405_over_50_sessions_ends_by_itself_after_one_of_them_asked(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    for each in FLEET:
        await linked(control, api, teller, each, phone(each))
    await refuse(control, teller, runner, *FLEET)
    told = (await api.get("/api/sessions/s00")).json()
    assert (told["status"], told["reason"], told["needsPerson"]) == (State.FAILED, Reason.CLIENT_OUTDATED, False)
    await time_passes(control, RETRY_AFTER_MS // 2)
    assert runner.epochs() == {}
    tried = []
    for _ in range(3):  # WhatsApp still refuses: another one asks each time, and only one
        await time_passes(control, RETRY_AFTER_MS)
        [one] = runner.epochs()
        tried.append(one)
        await refuse(control, teller, runner, one)
    assert len(set(tried)) > 1
    await time_passes(control, RETRY_AFTER_MS)
    [one] = runner.epochs()
    data = {"phoneNumber": phone(one), "jid": f"{phone(one)}:1@s.whatsapp.net", "revision": ACCEPTED}
    await teller.tell(one, "CONNECTED", data)
    await time_passes(control, 1)
    assert sorted(runner.epochs()) == FLEET
    for each in FLEET:
        await teller.connected(each, phone(each))
        assert (await now(control.context, each)).status is State.CONNECTED
    last = {spec.session_id: spec for spec in runner.started}
    newest = {each: spec.environment["WHATSAPP_REVISION"] for each, spec in last.items() if each != one}
    assert set(newest.values()) == {str(ACCEPTED)}


async def test_a_session_that_the_operator_stopped_does_not_ask(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "s00", phone("s00"))
    await refuse(control, teller, runner, "s00")
    await api.post("/api/sessions/s00/stop")
    await time_passes(control, 2 * RETRY_AFTER_MS)
    assert runner.epochs() == {}


async def test_a_renewed_code_asks_in_words_for_a_second_scan(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await api.post("/api/sessions/provision", json={"sessionId": "s00"})
    await drive(control)
    await teller.qr("s00", "2@ref,key,identity,old")
    shown = (await api.get("/api/sessions/s00/qr")).json()
    soon = round(time.time() * 1000) + 30_000  # within the life of the code that it replaces
    await teller.tell("s00", "QR_CODE", {"qr": "2@ref,key,identity,new", "expiresAt": soon, "renewed": True})
    told = (await api.get("/api/sessions/s00")).json()
    assert (told["status"], told["reason"]) == (State.QR_READY, Reason.SCAN_AGAIN)
    assert shown["qr"] != (await api.get("/api/sessions/s00/qr")).json()["qr"]
