"""Events reach the server in order, whatever is away or dies meanwhile, and a flood never hides a sign of life."""

import time

import pytest

from tests.waiting import until
from tests.worker.harness import Rig, Session, new_phone

pytestmark = pytest.mark.asyncio(loop_scope="session")


def texts(session: Session) -> list[str]:
    events = [event["data"] for event in session.station.events if event["type"] == "MESSAGE_RECEIVED"]
    return [data["text"] for data in events if data["text"] != "hello"]


async def greeted(session: Session) -> str:
    """A friend with whom there is a session: Baileys may reorder the very first messages of a stranger."""
    friend = new_phone()
    await session.rig.world.whatsapp.send_text(friend, session.phone, "hello")
    await session.event("MESSAGE_RECEIVED", phone=friend)
    return friend


async def test_every_event_is_signed_and_numbered_upwards_within_its_lane(rig: Rig, linked: Session) -> None:
    await rig.server.acked(await linked.say(new_phone(), "hello"))
    await linked.event("MESSAGE_SENT")
    assert linked.station.refused == []
    for is_message in (True, False):
        lane = [event for event in linked.station.events if event["type"].startswith("MESSAGE_") is is_message]
        numbers = [event["sequence"] for event in lane]
        assert numbers == sorted(numbers)
        assert {event["sessionId"] for event in lane} == {linked.id}


async def test_what_came_while_the_server_was_away_is_delivered_afterwards_in_order_and_once(rig: Rig) -> None:
    session = rig.session(PING_INTERVAL_MS="100")
    await session.link()
    friend = await greeted(session)
    session.station.event_status = 503
    for number in range(5):
        await rig.world.whatsapp.send_text(friend, session.phone, f"message {number}")
    await until(
        lambda: sum("message.received" in line for line in session.worker.raw) == 6, "the worker has received all"
    )
    back_at, seen = time.time() * 1000, len(session.station.events)
    session.station.event_status = None
    await session.event("MESSAGE_RECEIVED", text="message 4")
    assert texts(session) == [f"message {number}" for number in range(5)]
    await session.event("PING", after=seen)
    late = [
        event for event in session.station.events[seen:] if event["type"] == "PING" and event["timestamp"] < back_at
    ]
    assert len(late) <= 2, "those that nobody heard gave way to newer ones"


async def test_what_a_killed_worker_had_not_delivered_is_delivered_by_the_next(rig: Rig) -> None:
    session, friend = rig.session(), new_phone()
    await session.link()
    session.station.event_status = 503
    await rig.world.whatsapp.send_text(friend, session.phone, "before the kill")
    await until(lambda: any("message.received" in line for line in session.worker.raw), "the worker has received it")
    await until(lambda: any("event.not_taken" in line for line in session.worker.raw), "the event is not taken")
    await session.worker.kill()
    session.station.event_status = None
    seen = len(session.station.events)
    await session.restart()
    event = await session.event("MESSAGE_RECEIVED", after=seen, text="before the kill")
    assert event["epoch"] == 2  # an event in the name of the dead epoch would be refused


async def test_a_flood_of_messages_does_not_delay_a_ping(rig: Rig) -> None:
    session = rig.session(PING_INTERVAL_MS="200")
    await session.link()
    friend = await greeted(session)
    session.station.hears_messages.clear()
    for number in range(60):
        await rig.world.whatsapp.send_text(friend, session.phone, f"flood {number}")
    await rig.server.until(lambda: session.station.unheard)
    seen = len(session.station.events)
    await session.event("PING", after=seen)
    assert texts(session) == []
    session.station.hears_messages.set()
    await session.event("MESSAGE_RECEIVED", text="flood 59")
    assert texts(session) == [f"flood {number}" for number in range(60)]
