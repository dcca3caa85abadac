"""What WhatsApp considers delivered is reported exactly once, whatever cuts the worker off between the two."""

import random
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from tests.waiting import until
from tests.worker.harness import Rig, Session, new_phone
from wa_orchestrator.simulator.phones import actions

pytestmark = pytest.mark.asyncio(loop_scope="session")

BACKLOG = 40
ROUNDS = 4


async def cut(session: Session) -> None:
    seen = len(session.station.events)
    await session.rig.world.whatsapp.fault("drop", phone=session.phone)
    await session.event("CONNECTED", after=seen)


async def terminate(session: Session) -> None:
    await session.worker.terminate()
    await session.restart()


async def kill(session: Session) -> None:
    await session.worker.kill()
    await session.restart()


def reported(session: Session) -> Counter[str]:
    received = [event["data"] for event in session.station.events if event["type"] == "MESSAGE_RECEIVED"]
    return Counter(data["text"] for data in received)


async def all_reported_once(session: Session, texts: set[str]) -> None:
    await until(lambda: texts <= reported(session).keys(), lambda: f"missing: {texts - reported(session).keys()}")
    assert {text: count for text, count in reported(session).items() if count != 1} == {}


@pytest.mark.parametrize("interrupt", [cut, terminate, kill])
async def test_a_backlog_is_reported_once_although_the_worker_is_interrupted_in_it(
    rig: Rig, interrupt: Callable[[Session], Awaitable[None]]
) -> None:
    session, friend = rig.session(), new_phone()
    await session.link()
    texts: set[str] = set()
    dice = random.Random(interrupt.__name__)
    for number in range(ROUNDS):
        await session.worker.terminate()
        for index in range(BACKLOG):
            await rig.world.whatsapp.send_text(friend, session.phone, f"{number}.{index}")
        texts |= {f"{number}.{index}" for index in range(BACKLOG)}
        before = len(session.station.events)
        await session.restart()
        wanted = before + dice.randrange(1, BACKLOG)
        await until(lambda wanted=wanted: len(session.station.events) >= wanted, "some of the backlog")  # type: ignore[misc]
        await interrupt(session)
        await all_reported_once(session, texts)


@pytest.mark.parametrize("interrupt", [cut, terminate, kill])
async def test_messages_that_arrive_live_are_reported_once_although_the_worker_is_interrupted(
    rig: Rig, interrupt: Callable[[Session], Awaitable[None]]
) -> None:
    session, friend = rig.session(), new_phone()
    await session.link()
    texts: set[str] = set()
    for number in range(ROUNDS * 2):
        for index in range(10):
            await rig.world.whatsapp.send_text(friend, session.phone, f"{number}.{index}")
        texts |= {f"{number}.{index}" for index in range(10)}
        await interrupt(session)
    await all_reported_once(session, texts)


async def test_a_message_that_its_author_sends_again_after_a_restart_is_not_reported_again(rig: Rig) -> None:
    """Our receipt was lost, and what was delivered again could not be decrypted a second time."""
    session, friend = rig.session(), new_phone()
    await session.link()
    message = await rig.world.whatsapp.send_text(friend, session.phone, "once")
    await session.event("MESSAGE_RECEIVED", text="once")
    await session.worker.kill()
    await session.restart()
    world = rig.world.whatsapp._state
    author, (device,) = world.accounts.phone(friend), world.accounts.phone(session.phone).devices.values()
    actions.resend(world, author, device, message, 1)
    await rig.world.whatsapp.send_text(friend, session.phone, "afterwards")
    await all_reported_once(session, {"once", "afterwards"})


async def test_a_message_whose_event_was_never_stored_is_reported_after_a_kill(rig: Rig) -> None:
    """The moment at which it used to be lost: confirmed to WhatsApp, and only in memory."""
    session, friend = rig.session(), new_phone()
    await session.link()
    session.station.event_status = 503
    for number in range(5):
        await rig.world.whatsapp.send_text(friend, session.phone, f"early {number}")
        await until(
            lambda number=number: sum("message.received" in line for line in session.worker.raw) > number,  # type: ignore[misc]
            "the worker has received it",
        )
    await session.worker.kill()
    session.station.event_status = None
    await session.restart()
    await all_reported_once(session, {f"early {number}" for number in range(5)})
