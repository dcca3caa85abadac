"""FENCE_MS: a worker that hears nothing from its server leaves WhatsApp by itself, and comes back with the next sign."""

import time

import pytest

from tests.waiting import until
from tests.worker.harness import Rig, Session, new_phone

pytestmark = pytest.mark.asyncio(loop_scope="session")


FENCE_S = 3


def fenced(rig: Rig) -> Session:
    return rig.session(FENCE_MS=str(FENCE_S * 1000), PING_INTERVAL_MS="300")


def is_connected(session: Session) -> bool:
    return any(each.get("phone") == session.phone for each in session.rig.world.whatsapp.connections())


async def test_a_worker_that_is_cut_off_from_its_server_leaves_whatsapp_and_comes_back(rig: Rig) -> None:
    session, friend = fenced(rig), new_phone()
    await session.link()
    assert is_connected(session)
    seen = len(session.station.events)
    session.station.event_status = 503
    await until(lambda: not is_connected(session), lambda: "it stayed connected")
    assert session.worker.process.returncode is None
    session.station.event_status = None
    await session.event("CONNECTED", after=seen)
    await rig.server.acked(await session.say(friend, "back again"))


async def test_a_worker_does_not_connect_before_the_server_has_heard_it(rig: Rig) -> None:
    session = fenced(rig)
    await session.link()
    await session.worker.terminate()
    await until(lambda: not is_connected(session), lambda: "it is still connected")
    session.station.event_status = 503
    await session.start()
    await until(lambda: "event.not_taken" in session.worker.text, lambda: "no ping was refused")
    assert not is_connected(session)
    seen = len(session.station.events)
    session.station.event_status = None
    await session.event("CONNECTED", after=seen)
    assert is_connected(session)


async def test_a_worker_whose_fence_falls_while_it_looks_something_up_does_not_connect_afterwards(rig: Rig) -> None:
    session = fenced(rig)
    await session.link()
    await session.worker.terminate()
    await until(lambda: not is_connected(session), lambda: "it is still connected")
    version = session.directory / "version.json"
    version.unlink()
    proxy = rig.world.pool.find("proxy-1")
    await proxy.fault("blackhole")
    seen = len(session.station.events)
    await session.start()
    await session.event("PING", after=seen)
    session.station.event_status = 503
    fallen_at = time.monotonic() + FENCE_S
    await until(lambda: time.monotonic() > fallen_at, "the fence has fallen")
    await proxy.clear_faults()
    await until(version.exists, lambda: "it still looks up the version")
    looked_up_at = time.monotonic()
    await until(lambda: is_connected(session) or time.monotonic() > looked_up_at + 1, "it might have connected")
    assert not is_connected(session)
    session.station.event_status = None
    await session.event("CONNECTED", after=seen)
