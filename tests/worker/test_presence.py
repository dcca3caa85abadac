"""Presence: while a linked device is online, the owner's phone gets no notifications."""

import pytest

from tests.waiting import until
from tests.worker.harness import Rig, Session, new_phone

pytestmark = pytest.mark.asyncio(loop_scope="session")


def _presences(rig: Rig, session: Session) -> list[dict[str, object]]:
    return [one for one in rig.world.whatsapp.chatstates() if one["from"] == session.phone and one["to"] is None]


async def _hears(rig: Rig, session: Session, text: str) -> int:
    """Somebody writes; returns how often the phone has rung since it began."""
    seen = len(session.station.events)
    await rig.world.whatsapp.send_text(new_phone(), session.phone, text)
    await session.event("MESSAGE_RECEIVED", after=seen, text=text)
    return rig.world.whatsapp.pushes(session.phone)


@pytest.mark.parametrize("mode", ["while_sending", "never"])
async def test_a_quiet_session_lets_the_owners_phone_ring(rig: Rig, mode: str) -> None:
    session = rig.session(PRESENCE=mode, PING_INTERVAL_MS="100")
    await session.link()
    await until(lambda: bool(_presences(rig, session)), "the presence was said")
    assert await _hears(rig, session, "one") == 1
    assert await _hears(rig, session, "two") == 2
    assert {one["state"] for one in _presences(rig, session)} == {"unavailable"}


async def test_a_session_that_is_always_online_keeps_the_phone_silent(rig: Rig) -> None:
    session = rig.session(PRESENCE="always", PING_INTERVAL_MS="100")
    await session.link()
    await until(lambda: any(one["state"] == "available" for one in _presences(rig, session)), "it is online")
    assert await _hears(rig, session, "one") == 0


async def test_while_sending_the_device_is_online_around_the_message_and_not_after(rig: Rig) -> None:
    session = rig.session(PRESENCE="while_sending")
    await session.link()
    person = new_phone()
    await rig.server.acked(await session.say(person, "hello"))
    states = [one["state"] for one in rig.world.whatsapp.chatstates() if one["from"] == session.phone]
    assert states.index("available") < states.index("composing")
    await until(lambda: _presences(rig, session)[-1]["state"] == "unavailable", "it has left")
    rung = rig.world.whatsapp.pushes(session.phone)
    assert await _hears(rig, session, "thank you") == rung + 1


async def test_never_shows_neither_presence_nor_typing(rig: Rig) -> None:
    session = rig.session(PRESENCE="never")
    await session.link()
    await rig.server.acked(await session.say(new_phone(), "hello"))
    states = {one["state"] for one in rig.world.whatsapp.chatstates() if one["from"] == session.phone}
    assert states <= {"unavailable"}


async def test_no_presence_goes_without_a_type(rig: Rig) -> None:
    """Baileys sends one for every change of the credentials, and WhatsApp reads it as online."""
    session = rig.session(PRESENCE="while_sending")
    await session.link()
    await rig.server.acked(await session.say(new_phone(), "hello"))
    await session.worker.terminate()
    await session.restart()
    await rig.server.acked(await session.say(new_phone(), "hello again"))
    assert [one for one in _presences(rig, session) if not one["typed"]] == []
