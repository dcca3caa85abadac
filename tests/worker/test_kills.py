"""Workers that are killed while they send and receive keep their identity, and nothing is undecryptable afterwards.

`WORKER_KILLS` sets how many kills there are; the full size is 1000.
"""

import asyncio
import os
import random
from collections import Counter

import pytest

from tests.chaos import Record
from tests.waiting import until
from tests.worker.harness import Rig, Session, new_phone

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

KILLS = int(os.environ.get("WORKER_KILLS", "12"))
SESSIONS = 4


async def _killed_again_and_again(rig: Rig, number: int, kills: int) -> None:
    # On a busy machine it takes a while until the friend has sent again what a kill made unreadable.
    session, friend = rig.session(UNDECRYPTABLE_AFTER_MS="60000"), new_phone()
    first = (await session.link())["data"]
    dice = random.Random(number + int(os.environ.get("CHAOS_SEED", "0")))
    heard, sent = set(), []
    for turn in range(kills):
        for part in range(2):
            heard.add(text := f"{number}.{turn}.{part}")
            await rig.world.whatsapp.send_text(friend, session.phone, text)
            sent.append(await session.say(friend, f"to you {text}"))
        await asyncio.sleep(dice.uniform(0, 0.4))  # the moment of the kill is the point, not a wait for something
        await session.worker.kill()
        # What was in hand goes to the next worker, with the same id; so does what was given back.
        session.rig.server.take_back(session.id)
        done = _acked(session) | {entry["messageId"] for entry in session.station.waiting}
        session.station.waiting += [each for each in sent if each["messageId"] not in done]
        again = (await session.restart())["data"]
        assert (again["fingerprint"], again["jid"], again["lid"]) == (first["fingerprint"], first["jid"], first["lid"])
    await until(lambda: _acked(session) >= {each["messageId"] for each in sent}, lambda: f"{number}: not all acked")
    await until(lambda: heard <= _received(session).keys(), lambda: f"missing {heard - _received(session).keys()}")
    assert {text: count for text, count in _received(session).items() if count != 1} == {}
    await until(
        lambda: _shown(rig, friend) == Counter(each["whatsappId"] for each in sent),
        lambda: f"{number}: shown are {_shown(rig, friend)}",
    )
    await rig.world.whatsapp.send_text(friend, session.phone, "still readable?")
    await session.event("MESSAGE_RECEIVED", text="still readable?")
    await rig.server.acked(await session.say(friend, "yes"))
    assert [event for event in session.station.events if event["type"] == "MESSAGE_UNDECRYPTABLE"] == []
    await session.worker.terminate()


def _shown(rig: Rig, friend: str) -> Counter[str]:
    """What the friend sees, by WhatsApp id; what could not be decrypted is sent again first."""
    return Counter(entry["id"] for entry in rig.world.whatsapp.inbox(friend) if not entry["fromMe"])


def _acked(session: Session) -> set[str]:
    return {entry["messageId"] for entry in session.station.acks}


def _received(session: Session) -> Counter[str]:
    received = [event["data"] for event in session.station.events if event["type"] == "MESSAGE_RECEIVED"]
    return Counter(data["text"] for data in received)


async def test_kills_cost_neither_the_identity_nor_a_message(rig: Rig, record_property: Record) -> None:
    record_property("kills", KILLS)
    kills = [KILLS // SESSIONS + (number < KILLS % SESSIONS) for number in range(SESSIONS)]
    async with asyncio.TaskGroup() as tasks:
        for number, count in enumerate(kills):
            tasks.create_task(_killed_again_and_again(rig, number, count))
