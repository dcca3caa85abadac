"""kill -9 between any two steps: no message is lost, none is shown twice, and the identity stays."""

import asyncio
import itertools
import os
import random

import pytest

from tests.waiting import until
from tests.worker.harness import Rig, Session, new_phone
from tests.worker.standin import Json

pytestmark = pytest.mark.asyncio(loop_scope="session")

#: How many kills; a full run takes 200.
KILLS = int(os.environ.get("WORKER_KILLS", "20"))
JITTER_S = 0.01


async def reach(session: Session, message: Json, point: str) -> None:
    """Wait until the worker has got this far with the message."""
    whatsapp, friend = session.rig.world.whatsapp, message["to"]
    match point:
        case "claimed":
            await until(lambda: session.station.leased is message, "the message is claimed")
        case "typing":
            await until(lambda: any(entry["to"] == friend for entry in whatsapp.chatstates()), "it types")
        case "arrived":
            await until(lambda: session.arrivals(to=friend), "it arrives")
        case "acknowledged":
            await session.rig.server.acked(message)
    await asyncio.sleep(random.uniform(0, JITTER_S))


async def test_a_worker_killed_at_any_step_of_sending_shows_each_message_exactly_once(rig: Rig) -> None:
    session = rig.session()
    await session.link()
    # The acknowledgement comes late enough to be killed before it, and no receipt takes its place.
    await rig.world.whatsapp.fault("ack_delay", phone=session.phone, seconds=0.1)
    await rig.world.whatsapp.fault("no_receipts", phone=session.phone)
    messages = []
    points = itertools.cycle(["claimed", "typing", "arrived", "acknowledged"])
    for number in range(KILLS):
        message = await session.say(new_phone(), f"message {number}")
        messages.append(message)
        await reach(session, message, next(points))
        await session.worker.kill()
        await session.restart()
    for message in messages:
        await rig.server.acked(message)
        inbox = [entry for entry in rig.world.whatsapp.inbox(message["to"]) if entry["from"] == session.phone]
        assert [(entry["id"], entry["shown"]) for entry in inbox] == [(message["whatsappId"], 1)]
    again = [entry for entry in session.arrivals() if entry["repeat"]]
    # Whoever was killed after the arrival and before the ack must have sent again, or this run has proved nothing.
    assert KILLS // 4 <= len(again) <= KILLS


async def test_a_worker_killed_while_keys_change_keeps_its_identity_and_its_sessions(rig: Rig) -> None:
    session, friend = rig.session(), new_phone()
    first = await session.link()
    for number in range(max(3, KILLS // 4)):
        for part in range(4):
            await rig.world.whatsapp.send_text(friend, session.phone, f"round {number}, part {part}")
        await asyncio.sleep(random.uniform(0, 0.08))
        await session.worker.kill()
        again = await session.restart()
        assert again["data"]["fingerprint"] == first["data"]["fingerprint"]
    await rig.world.whatsapp.send_text(friend, session.phone, "after all that")
    await session.event("MESSAGE_RECEIVED", text="after all that")
    await rig.server.acked(await session.say(friend, "still here"))
    await until(lambda: any(entry["text"] == "still here" for entry in rig.world.whatsapp.inbox(friend)), "it is shown")
