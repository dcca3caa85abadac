"""A worker that pings and takes no message: it is noticed, replaced, and its successor sends what waited."""

from typing import Any

import pytest

from tests.e2e.product import Product, product
from tests.e2e.worker_line import WorkerLine
from tests.waiting import until

SESSION, PHONE, PERSON = "north", "972501101001", "972525551001"
SETTINGS = {
    "TIME_SCALE": "20",
    "COLD_HOURS": "00:00-00:00",
    "PING_TIMEOUT_MS": "600000",  # no worker is silent for that long, on a busy machine neither
}

pytestmark = [pytest.mark.slow, pytest.mark.asyncio]


async def is_sent(running: Product, message: str) -> bool:
    told: dict[str, Any] = (await running.door.get(f"/api/v1/messages/{message}")).raise_for_status().json()
    return told["status"] in ("sent", "delivered")


async def test_a_worker_that_pings_and_takes_no_message_is_replaced_and_the_message_arrives_once() -> None:
    line = WorkerLine()
    async with await line.serve(), product(proxies=1, **SETTINGS, **line.settings) as running:
        await running.link(SESSION, PHONE)
        idle = running.worker_pids()[SESSION]
        line.loses_claims = True
        await until(lambda: line.lost, "no question of the worker is open any more")
        body = {"to": PERSON, "sessionId": SESSION, "message": "Who takes this?"}
        message = (await running.door.post("/api/v1/send", json=body)).raise_for_status().json()["messageId"]
        await until(lambda: running.worker_pids().get(SESSION, idle) != idle, "the worker is replaced")
        line.loses_claims = False
        await until(lambda: is_sent(running, message), "its successor sends the message")
        assert [each["repeat"] for each in await running.arrivals() if each["to"] == PERSON] == [False]
        assert '"worker.silent"' in (running.home / "orchestrator.log").read_text()
