"""A worker that is frozen between its claim and its write: what was answered meanwhile holds when it wakes."""

import itertools
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.e2e.product import Product, product
from tests.waiting import until

SESSION, PHONE = "north", "972501100101"
#: Typed for some seconds before it is written, so that there is time to freeze the worker.
LONG = "We open at nine and close at six. " * 8
_people = itertools.count(972523000000 + os.getpid() % 100 * 1000)

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running() -> AsyncIterator[Product]:
    """The product with one linked session; a lease takes six seconds."""
    settings = {
        "TIME_SCALE": "20",
        "COLD_PER_DAY": "5000",
        "COLD_PER_MINUTE": "60",
        "COLD_HOURS": "00:00-00:00",
        "PING_TIMEOUT_MS": "2000000",
    }
    async with product(proxies=1, **settings) as made:
        await made.link(SESSION, PHONE)
        yield made


@contextmanager
def frozen(running: Product) -> Iterator[None]:
    """Meanwhile the worker does not run."""
    pid = running.worker_pids()[SESSION]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def claimed(running: Product) -> tuple[str, str]:
    """A message that the worker has claimed and is typing: its id and its recipient."""
    person = str(next(_people))
    body = {"to": person, "sessionId": SESSION, "message": LONG}
    answer = await running.door.post("/api/v1/send", json=body)
    message = str(answer.raise_for_status().json()["messageId"])
    await until(lambda: has_status(running, message, "sending"), "a worker has claimed it")
    return message, person


async def has_status(running: Product, message: str, *statuses: str) -> dict[str, Any] | None:
    told: dict[str, Any] = (await running.door.get(f"/api/v1/messages/{message}")).raise_for_status().json()
    return told if told["status"] in statuses else None


async def arrived(running: Product, person: str) -> bool:
    return any(each["to"] == person for each in await running.arrivals())


async def another_arrives(running: Product) -> None:
    """The worker goes on with the next message, so it has dropped the one before."""
    message, _ = await claimed(running)
    await until(lambda: has_status(running, message, "sent", "delivered"), "the next one is sent")


async def test_a_person_who_opts_out_while_the_worker_is_frozen_gets_nothing(running: Product) -> None:
    message, person = await claimed(running)
    with frozen(running):
        assert not await arrived(running, person)
        (await running.api.post("/api/v1/opt-outs", json={"phone": person})).raise_for_status()
    told = await until(lambda: has_status(running, message, "cancelled"), "it is cancelled")
    assert told["reason"] == "OPTED_OUT"
    await another_arrives(running)
    assert not await arrived(running, person)


async def test_a_message_that_was_cancelled_while_the_worker_was_frozen_never_leaves(running: Product) -> None:
    message, person = await claimed(running)
    with frozen(running):

        async def cancelled() -> bool:
            answer = await running.door.delete(f"/api/v1/messages/{message}")
            return answer.status_code == httpx.codes.OK

        await until(cancelled, "its lease has ended, and it is cancelled")
        assert not await arrived(running, person)
    await another_arrives(running)
    assert not await arrived(running, person)


async def test_a_hold_keeps_back_what_a_frozen_worker_had_claimed_until_it_is_lifted(running: Product) -> None:
    message, person = await claimed(running)
    with frozen(running):
        hold = (await running.api.post("/api/anti-ban/holds", json={"all": True})).raise_for_status().json()
        assert not await arrived(running, person)
    await until(lambda: has_status(running, message, "queued"), "it is back in its queue")
    assert not await arrived(running, person)
    (await running.api.delete(f"/api/anti-ban/holds/{hold['id']}")).raise_for_status()
    told = await until(lambda: has_status(running, message, "sent", "delivered"), "it is sent")
    assert [step["note"] for step in told["timeline"] if step["status"] == "queued"][1:] == ["HELD"]


async def test_a_frozen_worker_writes_nothing_after_closing_time(running: Product) -> None:
    message, person = await claimed(running)
    with frozen(running):
        hours = await _hours_away(running)
        (await running.api.put(f"/api/anti-ban/sessions/{SESSION}/limits", json=hours)).raise_for_status()
        assert not await arrived(running, person)
    await until(lambda: has_status(running, message, "queued"), "it is back in its queue")
    assert not await arrived(running, person)
    (await running.api.delete(f"/api/anti-ban/sessions/{SESSION}/limits")).raise_for_status()
    await until(lambda: has_status(running, message, "sent", "delivered"), "it is sent")


async def _hours_away(running: Product) -> dict[str, Any]:
    """Hours of one hour that are over, or twelve hours away, in every time zone of the installation."""
    seconds, _ = await running.redis.time()
    hour = (seconds // 3600 + 12) % 24
    return {"opens": f"{hour:02d}:00", "closes": f"{(hour + 1) % 24:02d}:00", "acknowledgeRisk": True}
