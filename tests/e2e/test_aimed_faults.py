"""Faults aimed at one worker, one answer or the whole machine: what they hit goes on, and nobody beside it waits."""

import asyncio
import itertools
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from tests.e2e.product import Product, product, unhurried
from tests.e2e.worker_line import WorkerLine
from tests.waiting import until
from wa_orchestrator.dispatcher.due_phones import SILENT_MS
from wa_orchestrator.domain.messages.retry import MOST_CRASHES
from wa_orchestrator.store import records
from wa_orchestrator.store.engine.scripts import Scripts

SESSION, SIBLING, PHONE = "north", "north-too", "972501100801"
PARTS = ("redis", "orchestrator", "gateway", "dispatcher-1", "dispatcher-2")
#: So long that a message which waits for its lease's end misses every deadline of these tests.
LEASE_S = 600
ORPHAN_TIMEOUT_S = 15
_people = itertools.count(972528000000 + os.getpid() % 100 * 1000)

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@dataclass
class Running:
    """The product with a phone that has two devices, and the line to its workers."""

    product: Product
    line: WorkerLine


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running() -> AsyncIterator[Running]:
    scale = 20
    line = WorkerLine()
    settings = unhurried(scale) | {
        "COLD_PER_DAY": "5000",
        "COLD_PER_MINUTE": "60",
        "COLD_HOURS": "00:00-00:00",
        "LEASE_MS": str(LEASE_S * scale * 1000),
        "ORPHAN_TIMEOUT_MS": str(ORPHAN_TIMEOUT_S * 1000),
    }
    async with await line.serve(), product(proxies=1, **settings, **line.settings) as made:
        await made.link(SESSION, PHONE)
        named = {"sessionId": SIBLING, "phone": PHONE}  # a phone that is linked already must be named
        (await made.api.post("/api/sessions/provision", json=named)).raise_for_status()
        await made.scan(SIBLING, PHONE)
        yield Running(made, line)


async def send(running: Running, session: str | None = SESSION) -> tuple[str, str]:
    """Send to somebody new, from a session or from whoever may: the message's id, and the recipient."""
    person = str(next(_people))
    body = {"to": person, "message": "We open at nine."} | ({"sessionId": session} if session else {})
    answer = await running.product.door.post("/api/v1/send", json=body)
    return str(answer.raise_for_status().json()["messageId"]), person


async def look(running: Running, message: str) -> dict[str, Any]:
    told: dict[str, Any] = (await running.product.door.get(f"/api/v1/messages/{message}")).raise_for_status().json()
    return told


async def reaches(running: Running, message: str, *statuses: str) -> dict[str, Any]:
    async def there() -> dict[str, Any] | None:
        told = await look(running, message)
        return told if told["status"] in statuses else None

    found: dict[str, Any] = await until(there, f"{message} is {' or '.join(statuses)}")
    return found


async def test_a_claim_whose_answer_was_lost_blocks_nobody(running: Running) -> None:
    running.line.loses_next_message = True
    messages = [await send(running) for _ in range(2)]
    for message, person in messages:
        told = await reaches(running, message, "sent", "delivered", "unknown", "failed")
        assert (told["status"] in ("sent", "delivered"), told["attempts"]) == (True, 1)
        assert [each["repeat"] for each in await running.product.arrivals() if each["to"] == person] == [False]
    assert running.line.lost == 1, "void: no answer was lost"


async def test_a_phones_other_device_sends_while_the_one_of_the_conversation_is_frozen(running: Running) -> None:
    worker = running.product.worker_pids()[SESSION]
    os.kill(worker, signal.SIGSTOP)
    try:

        async def is_silent() -> bool:
            scripts = Scripts(running.product.redis)
            session = await records.session(scripts, SESSION)
            assert session is not None
            return await scripts.now_ms() - session.asked_at > SILENT_MS

        await until(is_silent, "the server misses the frozen worker")
        for _ in range(3):
            message, _ = await send(running, session=None)
            assert (await reaches(running, message, "sent", "delivered"))["sessionId"] == SIBLING
    finally:
        os.kill(worker, signal.SIGCONT)
    message, _ = await send(running)
    await reaches(running, message, "sent", "delivered")


async def test_a_message_that_kills_every_worker_is_given_up_and_its_session_goes_on(running: Running) -> None:
    killed: list[int] = []

    def kill() -> None:
        killed.append(running.product.worker_pids()[SESSION])
        os.kill(killed[-1], signal.SIGKILL)

    running.line.before_message = kill
    poison, person = await send(running)
    told = await reaches(running, poison, "unknown", "failed", "sent", "delivered")
    running.line.before_message = None
    assert (told["status"], told["reason"]) == ("failed", "WORKER_CRASHED")  # no worker had asked to write it
    assert len(set(killed)) == MOST_CRASHES
    await until(lambda: running.product.is_connected(SESSION), "the session is connected")
    message, _ = await send(running)
    await reaches(running, message, "sent", "delivered")
    assert [each for each in await running.product.arrivals() if each["to"] == person] == []


async def test_no_worker_ends_when_the_machine_sleeps_for_longer_than_workers_wait_for_their_server(
    running: Running,
) -> None:
    workers = running.product.worker_pids()
    programs = [running.product.parts[name].program for name in PARTS]
    asleep = [*workers.values(), *(program.process.pid for program in programs if program)]
    for pid in asleep:
        os.kill(pid, signal.SIGSTOP)
    await asyncio.sleep(ORPHAN_TIMEOUT_S + 3)  # this is the fault
    for pid in asleep:
        os.kill(pid, signal.SIGCONT)
    for session in (SESSION, SIBLING):
        message, _ = await send(running, session=session)
        await reaches(running, message, "sent", "delivered")
    assert running.product.worker_pids() == workers


async def test_a_server_that_is_stopped_while_workers_wait_for_messages_logs_no_error(running: Running) -> None:
    orchestrator = running.product.parts["orchestrator"]
    assert orchestrator.program is not None
    before = len(orchestrator.program.lines)
    assert orchestrator.program.end(signal.SIGTERM) == 0
    said = orchestrator.program.lines[before:]
    assert [line for line in said if "Traceback" in line or '"level": "error"' in line] == []
    orchestrator.start()
    await until(lambda: running.product.is_connected(SESSION), "the session is connected")
