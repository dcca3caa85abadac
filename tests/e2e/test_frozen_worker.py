"""A worker that is frozen between its claim and its write: what was answered meanwhile holds when it wakes."""

import asyncio
import itertools
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.e2e.product import Product, home_of_its_own, unhurried
from tests.e2e.worker_line import WorkerLine
from tests.waiting import PATIENCE_S, until

SESSION, PHONE = "north", "972501100101"
SCALE = 20
#: Longer than a busy machine takes to do something to a message whose worker is frozen.
LEASE_S = 20
_people = itertools.count(972523000000 + os.getpid() % 100 * 1000)

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@dataclass
class Running(Product):
    """The product with one linked session, and the line to its worker."""

    line: WorkerLine = field(default_factory=WorkerLine)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running() -> AsyncIterator[Running]:
    settings = unhurried(SCALE) | {
        "LEASE_MS": str(LEASE_S * SCALE * 1000),
        "ACK_TIMEOUT_MS": str(LEASE_S * SCALE * 500),
        "COLD_PER_DAY": "5000",
        "COLD_PER_MINUTE": "60",
        "COLD_HOURS": "00:00-00:00",
    }
    line = WorkerLine()
    with home_of_its_own() as home:
        async with await line.serve(), Running(home, 1, settings | line.settings, line=line) as made:
            await made.link(SESSION, PHONE)
            yield made


async def send(running: Running) -> tuple[str, str]:
    """Send to somebody new: the message's id, and the recipient."""
    person = str(next(_people))
    body = {"to": person, "sessionId": SESSION, "message": "We open at nine."}
    answer = await running.door.post("/api/v1/send", json=body)
    return str(answer.raise_for_status().json()["messageId"]), person


@asynccontextmanager
async def claimed_by_a_frozen_worker(running: Running) -> AsyncIterator[tuple[str, str]]:
    """A message and its recipient. Meanwhile the worker that has claimed it does not run."""
    worker = running.worker_pids()[SESSION]
    is_frozen = running.line.freeze_with_message(worker)
    sent = await send(running)
    try:
        async with asyncio.timeout(PATIENCE_S):
            await is_frozen.wait()
        assert await has_status(running, sent[0], "sending")
        yield sent
    finally:
        os.kill(worker, signal.SIGCONT)


async def has_status(running: Running, message: str, *statuses: str) -> dict[str, Any] | None:
    told: dict[str, Any] = (await running.door.get(f"/api/v1/messages/{message}")).raise_for_status().json()
    return told if told["status"] in statuses else None


async def arrived(running: Running, person: str) -> bool:
    return any(each["to"] == person for each in await running.arrivals())


async def another_arrives(running: Running) -> None:
    """The worker goes on with the next message, so it has dropped the one before."""
    message, _ = await send(running)
    await until(lambda: has_status(running, message, "sent", "delivered"), "the next one is sent")


async def test_a_person_who_opts_out_while_the_worker_is_frozen_gets_nothing(running: Running) -> None:
    async with claimed_by_a_frozen_worker(running) as (message, person):
        assert not await arrived(running, person)
        (await running.api.post("/api/v1/opt-outs", json={"phone": person})).raise_for_status()
    told = await until(lambda: has_status(running, message, "cancelled"), "it is cancelled")
    assert told["reason"] == "OPTED_OUT"
    await another_arrives(running)
    assert not await arrived(running, person)


async def test_a_message_that_was_cancelled_while_the_worker_was_frozen_never_leaves(running: Running) -> None:
    async with claimed_by_a_frozen_worker(running) as (message, person):

        async def cancelled() -> bool:
            answer = await running.door.delete(f"/api/v1/messages/{message}")
            return answer.status_code == httpx.codes.OK

        await until(cancelled, "its lease has ended, and it is cancelled")
        assert not await arrived(running, person)
    await another_arrives(running)
    assert not await arrived(running, person)


async def test_a_hold_keeps_back_what_a_frozen_worker_had_claimed_until_it_is_lifted(running: Running) -> None:
    async with claimed_by_a_frozen_worker(running) as (message, person):
        hold = (await running.api.post("/api/anti-ban/holds", json={"all": True})).raise_for_status().json()
        assert not await arrived(running, person)
    await until(lambda: has_status(running, message, "queued"), "it is back in its queue")
    assert not await arrived(running, person)
    (await running.api.delete(f"/api/anti-ban/holds/{hold['id']}")).raise_for_status()
    told = await until(lambda: has_status(running, message, "sent", "delivered"), "it is sent")
    assert [step["note"] for step in told["timeline"] if step["status"] == "queued"][1:] == ["HELD"]


async def test_a_frozen_worker_writes_nothing_after_closing_time(running: Running) -> None:
    async with claimed_by_a_frozen_worker(running) as (message, person):
        hours = await _hours_away(running)
        (await running.api.put(f"/api/anti-ban/sessions/{SESSION}/limits", json=hours)).raise_for_status()
        assert not await arrived(running, person)
    await until(lambda: has_status(running, message, "queued"), "it is back in its queue")
    assert not await arrived(running, person)
    (await running.api.delete(f"/api/anti-ban/sessions/{SESSION}/limits")).raise_for_status()
    await until(lambda: has_status(running, message, "sent", "delivered"), "it is sent")


async def _hours_away(running: Running) -> dict[str, Any]:
    """Hours of one hour that are over, or twelve hours away, in every time zone of the installation."""
    seconds, _ = await running.redis.time()
    hour = (seconds // 3600 + 12) % 24
    return {"opens": f"{hour:02d}:00", "closes": f"{(hour + 1) % 24:02d}:00", "acknowledgeRisk": True}
