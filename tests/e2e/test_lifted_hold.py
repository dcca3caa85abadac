"""A hold or a limit is lifted while Redis or the server dies: the operator's repeat lets every phone send."""

import asyncio
import itertools
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime

import httpx
import pytest
import pytest_asyncio

from tests.e2e.product import Product, product
from tests.waiting import until
from wa_orchestrator.store import keys, records
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


def hours_of_another_time() -> dict[str, str]:
    """Hours that end or begin some hours from now."""
    is_late = datetime.now().astimezone().hour >= 12
    return {"opens": "03:00", "closes": "04:00"} if is_late else {"opens": "20:00", "closes": "21:00"}


async def close(running: Product) -> None:
    for session in PHONES:
        path = f"/api/anti-ban/sessions/{session}/limits"
        (await running.api.put(path, json=hours_of_another_time())).raise_for_status()


async def wait_for_the_hours(running: Product) -> bool:
    """Whether no phone is due before its hours begin."""
    in_an_hour_ms = (time.time() + 3600) * 1000
    found = [await running.redis.zscore(keys.DUE, phone) for phone in PHONES.values()]
    return all(due is not None and due > in_an_hour_ms for due in found)


async def opened(running: Product) -> bool:
    """Whether the requests for the usual hours were answered; they never fail for another reason than what died."""
    with suppress(httpx.HTTPError):
        answers = [await running.api.delete(f"/api/anti-ban/sessions/{session}/limits") for session in PHONES]
        assert all(answer.is_success or answer.is_server_error for answer in answers), [each.text for each in answers]
        return all(answer.is_success for answer in answers)
    return False


@pytest.mark.parametrize("part", ["redis", "orchestrator"])
async def test_every_phone_sends_after_a_change_of_limits_that_was_cut_off(running: Product, part: str) -> None:
    await close(running)
    began = time.monotonic()
    assert await opened(running)
    took_s = time.monotonic() - began
    for moment in MOMENTS[1:4]:
        await close(running)
        messages = await send_from_all(running)
        await until(lambda: wait_for_the_hours(running), "every phone waits for its hours")
        opening = asyncio.create_task(opened(running))
        await asyncio.sleep(moment * took_s)
        running.parts[part].kill()
        await opening
        await until(running.redis_answers, "Redis answers")
        await until(lambda: opened(running), "the operator's repeat is answered")
        await until(lambda: are_sent(running, messages), "everything is sent")  # noqa: B023
        arrived = Counter(each["to"] for each in await running.arrivals() if not each["repeat"])
        assert [arrived[person] for person in messages.values()] == [1] * len(messages)
