"""WhatsApp announces the day from which it refuses a client version: the worker tells, and looks for a newer one in time."""

import pytest

from tests.waiting import until
from tests.worker.harness import Rig

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_an_announced_end_is_told_and_a_newer_version_is_looked_for(rig: Rig) -> None:
    session = rig.session()
    await session.link()
    remembered = session.directory / "version.json"
    remembered.unlink(missing_ok=True)
    await rig.world.whatsapp.fault("client_expiration", phone=session.phone, at=1_900_000_000)
    told = (await session.event("CLIENT_EXPIRATION"))["data"]
    assert told["expiresAt"] == 1_900_000_000_000
    assert told["revision"] > 0
    await until(remembered.exists, "the version was looked up")
    seen = len(session.station.events)
    await rig.world.whatsapp.fault("client_expiration", phone=session.phone)
    assert (await session.event("CLIENT_EXPIRATION", after=seen))["data"]["expiresAt"] == 0
