"""Every way a connection ends: what is reported, whether the worker comes back, and how it exits."""

import signal
from pathlib import Path

import pytest

from tests.worker.harness import Rig, new_phone

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize(
    ("fault", "reason", "code"),
    [("drop", "CONNECTION_CLOSED", 428), ("unavailable", "SERVICE_UNAVAILABLE", 503)],
)
async def test_a_lost_connection_is_reported_and_comes_back(rig: Rig, fault: str, reason: str, code: int) -> None:
    session = rig.session()
    await session.link()
    seen = len(session.station.events)
    await rig.world.whatsapp.fault(fault, phone=session.phone)
    await session.event("DISCONNECTED", after=seen, reason=reason, code=code, willReconnect=True)
    await session.event("CONNECTED", after=seen)


@pytest.mark.parametrize("part", ["cipher", "stanza"])
async def test_one_bad_frame_costs_a_reconnect_and_not_the_worker(rig: Rig, part: str) -> None:
    session, friend = rig.session(), new_phone()
    await session.link()
    seen = len(session.station.events)
    await rig.world.whatsapp.fault("bad_frame", phone=session.phone, part=part)
    await session.event("DISCONNECTED", after=seen, reason="BAD_FRAME", code=500, willReconnect=True)
    await session.event("CONNECTED", after=seen)
    await rig.world.whatsapp.send_text(friend, session.phone, "after the bad frame")
    await session.event("MESSAGE_RECEIVED", text="after the bad frame")
    assert not [event for event in session.station.events if event["type"] in ("PROXY_ERROR", "STATUS_CHANGE")]


async def test_bad_frames_again_and_again_end_the_worker(rig: Rig) -> None:
    session = rig.session()
    await session.link()
    for _ in range(2):
        seen = len(session.station.events)
        await rig.world.whatsapp.fault("bad_frame", phone=session.phone)
        await session.event("CONNECTED", after=seen)
    await rig.world.whatsapp.fault("bad_frame", phone=session.phone)
    await session.event("STATUS_CHANGE", status="crashed")
    assert await session.worker.ended() == 50


async def test_a_silent_server_is_noticed_and_left(rig: Rig) -> None:
    session = rig.session(WHATSAPP_KEEP_ALIVE_MS="200")
    await session.link()
    seen = len(session.station.events)
    await rig.world.whatsapp.fault("silence", phone=session.phone)
    await session.event("DISCONNECTED", after=seen, reason="CONNECTION_LOST", code=408, willReconnect=True)
    await rig.world.whatsapp.clear_faults()
    await session.event("CONNECTED", after=seen)


@pytest.mark.parametrize(
    ("fault", "reason", "code", "exit_code"),
    [
        ("replace", "REPLACED_ELSEWHERE", 440, 31),
        ("logout", "LOGGED_OUT", 401, 30),
        ("ban", "BANNED", 403, 32),
    ],
)
async def test_a_final_end_is_reported_and_never_followed_by_a_login(
    rig: Rig, fault: str, reason: str, code: int, exit_code: int
) -> None:
    session = rig.session()
    await session.link()
    await rig.world.whatsapp.fault(fault, phone=session.phone)
    await session.event("DISCONNECTED", reason=reason, code=code, willReconnect=False)
    assert await session.worker.ended() == exit_code
    assert all(entry["phone"] != session.phone for entry in rig.world.whatsapp.connections())


async def test_a_temporary_ban_says_when_it_ends(rig: Rig) -> None:
    session = rig.session()
    await session.link()
    await rig.world.whatsapp.fault("temporary_ban", phone=session.phone, seconds=600)
    ended = await session.event("DISCONNECTED", reason="TEMPORARY_BAN", code=402, willReconnect=False)
    assert 500_000 < ended["data"]["expiresAt"] - ended["timestamp"] <= 601_000
    assert await session.worker.ended() == 33


async def test_a_login_refused_with_406_is_a_ban(rig: Rig) -> None:
    session = rig.session()
    await session.link()
    await session.worker.terminate()
    await rig.world.whatsapp.fault("refuse_login", phone=session.phone, code=406)
    await session.start()
    await session.event("DISCONNECTED", reason="BANNED", code=406, willReconnect=False)
    assert await session.worker.ended() == 32


async def test_a_worker_that_nobody_answers_ends_as_an_orphan(rig: Rig) -> None:
    session = rig.session(ORPHAN_TIMEOUT_MS="4000")
    await session.link()
    session.station.event_status = session.station.outbox_status = 503
    assert await session.worker.ended() == 40


async def test_a_worker_that_slept_longer_than_its_patience_goes_on_when_it_wakes(rig: Rig) -> None:
    session, awake = (rig.session(ORPHAN_TIMEOUT_MS="3000", PING_INTERVAL_MS="300") for _ in range(2))
    await session.link()
    await awake.link()
    process = session.worker.process
    process.send_signal(signal.SIGSTOP)
    awake.station.event_status = awake.station.outbox_status = 503
    assert await awake.worker.ended() == 40  # so much time has passed that an awake one loses patience
    seen = len(session.station.events)
    process.send_signal(signal.SIGCONT)
    await session.event("PING", after=seen + 1)
    await rig.server.acked(await session.say(new_phone(), "still here"))


async def test_an_older_epoch_is_fenced_by_the_server(rig: Rig) -> None:
    session = rig.session(PING_INTERVAL_MS="200")
    await session.link()
    session.station.epoch += 1
    assert await session.worker.ended() == 22


async def test_an_unexpected_error_is_reported_once_and_ends_the_worker(rig: Rig, tmp_path: Path) -> None:
    session = rig.session()
    await session.start()
    await session.event("QR_CODE")
    await session.worker.terminate()
    surprise = tmp_path / "surprise.cjs"
    surprise.write_text("setTimeout(() => { throw new Error('surprise') }, 1000)")
    seen = len(session.station.events)
    await session.start(options=("--require", str(surprise)))
    await session.event("STATUS_CHANGE", after=seen, status="crashed")
    assert await session.worker.ended() == 50
    assert sum(event["type"] == "STATUS_CHANGE" for event in session.station.events) == 1
