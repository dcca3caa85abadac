"""A hold is lifted while Redis or the server dies: whatever the moment, the operator's repeat lets every phone send."""

import asyncio
import itertools
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import httpx
import pytest
import pytest_asyncio

from tests.e2e.product import Product, product
from tests.waiting import until
from wa_orchestrator.store import records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import phone_queues

PHONES = {"north": "972501100501", "south": "972501100502", "east": "972501100503"}
DISPATCHERS = ("dispatcher-1", "dispatcher-2")
#: When something dies, as parts of the time that an undisturbed request takes.
MOMENTS = (0.0, 0.25, 0.5, 0.75, 1.0)
PER_PHONE = 2
_people = itertools.count(972525000000 + os.getpid() % 100 * 1000)

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running() -> AsyncIterator[Product]:
    """The product with three phones."""
    settings = {
        "TIME_SCALE": "20",
        "COLD_PER_DAY": "5000",
        "COLD_PER_MINUTE": "60",
        "COLD_HOURS": "00:00-00:00",
        "PING_TIMEOUT_MS": "2000000",
    }
    async with product(proxies=1, **settings) as made:
        await asyncio.gather(*(made.link(session, phone) for session, phone in PHONES.items()))
        yield made


def signal_dispatchers(running: Product, number: int) -> None:
    for name in DISPATCHERS:
        program = running.parts[name].program
        assert program is not None
        os.kill(program.process.pid, number)


@asynccontextmanager
async def sleeping_under_the_hold(running: Product) -> AsyncIterator[None]:
    """Every phone waits for the hold's end. Meanwhile nothing is released, and no sweep wakes who was forgotten."""

    async def frozen() -> bool:
        signal_dispatchers(running, signal.SIGSTOP)
        if len(await asleep(running)) == len(PHONES):
            return True
        signal_dispatchers(running, signal.SIGCONT)
        return False

    await until(frozen, "every phone waits for the hold's end")
    try:
        yield
    finally:
        signal_dispatchers(running, signal.SIGCONT)


async def hold(running: Product) -> None:
    (await running.api.post("/api/anti-ban/holds", json={"all": True})).raise_for_status()


async def lifted(running: Product) -> bool:
    """Whether the request to lift the hold was answered; it never fails for another reason than what died."""
    with suppress(httpx.HTTPError):
        answer = await running.api.delete("/api/anti-ban/holds/all")
        assert answer.is_success or answer.is_server_error, answer.text
        return answer.is_success
    return False


async def asleep(running: Product) -> list[str]:
    """The phones for which messages wait and which nothing will wake."""
    return await phone_queues.asleep(Scripts(running.redis), sorted(PHONES.values()))


async def send_from_all(running: Product) -> dict[str, str]:
    """Let every phone have messages to send: their recipients by id."""
    recipients = {}
    for session in [*PHONES] * PER_PHONE:
        person = str(next(_people))
        body = {"to": person, "sessionId": session, "message": "We open at nine."}
        answer = await running.door.post("/api/v1/send", json=body)
        recipients[str(answer.raise_for_status().json()["messageId"])] = person
    return recipients


async def usual_time(running: Product) -> float:
    """How many seconds it takes to lift a hold while nothing dies."""
    await hold(running)
    began = time.monotonic()
    assert await lifted(running)
    return time.monotonic() - began


async def lift_while_it_dies(running: Product, part: str, after_s: float) -> None:
    """Lift the hold, and kill a part meanwhile."""
    lifting = asyncio.create_task(lifted(running))
    await asyncio.sleep(after_s)
    running.parts[part].kill()
    await lifting
    await until(running.redis_answers, "Redis answers")


async def are_sent(running: Product, messages: dict[str, str]) -> bool:
    found = await records.messages(Scripts(running.redis), [*messages])
    return all(message.status in ("sent", "delivered", "read") for message in found)


@pytest.mark.parametrize("part", ["redis", "orchestrator"])
async def test_every_phone_sends_after_a_hold_whose_lifting_was_cut_off(running: Product, part: str) -> None:
    took_s = await usual_time(running)
    for moment in MOMENTS:
        await hold(running)
        messages = await send_from_all(running)
        async with sleeping_under_the_hold(running):
            await lift_while_it_dies(running, part, moment * took_s)
            is_held = "all" in await records.holds(Scripts(running.redis))
            assert len(await asleep(running)) == (len(PHONES) if is_held else 0), "lifted, and a phone sleeps on"
            await until(lambda: lifted(running), "the operator's repeat is answered")
            assert await asleep(running) == []
        await until(lambda: are_sent(running, messages), "everything is sent")  # noqa: B023
        arrived = Counter(each["to"] for each in await running.arrivals() if not each["repeat"])
        assert [arrived[person] for person in messages.values()] == [1] * len(messages)
