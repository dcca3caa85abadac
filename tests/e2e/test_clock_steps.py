"""The clock of Redis' machine or of the server is set: no pause is broken, no phone falls silent, and somebody leads."""

import itertools
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.e2e.product import Product, product
from tests.e2e.redis_clock import PROGRAM, set_clock, set_server_clock
from tests.waiting import promised, until

SESSION, PHONE = "north", "972501100601"
HOUR_MS, MINUTE_MS = 3_600_000, 60_000
STEPS = {"+1 h": HOUR_MS, "-1 h": -HOUR_MS, "+10 min": 10 * MINUTE_MS, "-10 min": -10 * MINUTE_MS}
#: The pauses of the phone, in seconds.
SHORTEST_S, LONGEST_S = 1.5, 2.0
#: What a message takes beside its pause: released, claimed, typed, acknowledged; or taken back from its lease first.
ON_ITS_WAY_S = 10.0
_people = itertools.count(972526000000 + os.getpid() % 100 * 1000)

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running() -> AsyncIterator[Product]:
    """The product with one linked session; a lease takes six seconds, and a silent worker is replaced after thirty."""
    scale = 20
    settings = {
        "TIME_SCALE": str(scale),
        "COLD_PER_DAY": "5000",
        "COLD_PER_MINUTE": "60",
        "COLD_PAUSE_MIN_MS": str(round(SHORTEST_S * scale * 1000)),
        "COLD_PAUSE_MAX_MS": str(round(LONGEST_S * scale * 1000)),
        "COLD_HOURS": "00:00-00:00",
        "PING_TIMEOUT_MS": "600000",
    }
    async with product(proxies=1, program=PROGRAM, **settings) as made:
        await made.link(SESSION, PHONE)
        yield made


async def send(running: Product) -> tuple[str, str]:
    """Send to somebody new: the message's id, and the recipient."""
    person = str(next(_people))
    body = {"to": person, "sessionId": SESSION, "message": "We open at nine."}
    return str((await running.door.post("/api/v1/send", json=body)).raise_for_status().json()["messageId"]), person


async def is_sent(running: Product, message: str) -> bool:
    told: dict[str, Any] = (await running.door.get(f"/api/v1/messages/{message}")).raise_for_status().json()
    assert told["status"] not in ("failed", "unknown", "expired", "cancelled"), told
    return told["status"] in ("sent", "delivered")


async def arrival(running: Product, person: str) -> float | None:
    """When WhatsApp saw the message for somebody, by its own clock; once only."""
    found = [each["at"] for each in await running.arrivals() if each["to"] == person and not each["repeat"]]
    assert len(found) <= 1
    return found[0] if found else None


async def lateness_of_acks(running: Product, seconds: float) -> None:
    for fault in ({"kind": "ack_delay", "seconds": seconds}, {"kind": "no_receipts"}):
        (await running.control.post("/faults", json={"target": "whatsapp", **fault})).raise_for_status()


@pytest.mark.parametrize(
    ("moment", "step"),
    [*(("in its pause", step) for step in STEPS), ("while it sends", "+1 h"), ("while it sends", "-1 h")],
)
async def test_a_phone_keeps_its_pauses_and_goes_on_whatever_the_clock_says(
    running: Product, moment: str, step: str
) -> None:
    worker = running.worker_pids()[SESSION]
    if moment == "while it sends":
        await lateness_of_acks(running, 2.0)
    messages = [await send(running) for _ in range(3)]
    first, person = messages[0]
    await until(lambda: arrival(running, person), "WhatsApp has the first one")
    if moment == "in its pause":
        await until(lambda: is_sent(running, first), "the first one is sent")
    await set_clock(running.redis, STEPS[step])
    (await running.control.delete("/faults")).raise_for_status()
    for message, _ in messages:
        await until(lambda message=message: is_sent(running, message), "it is sent")  # type: ignore[misc]
    times = [await until(lambda to=to: arrival(running, to), "it has arrived") for _, to in messages]  # type: ignore[misc]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert min(gaps) >= SHORTEST_S, f"a pause of {min(gaps):.1f} s"
    assert max(gaps) <= LONGEST_S + promised(ON_ITS_WAY_S), f"silent for {max(gaps):.1f} s"
    assert running.worker_pids()[SESSION] == worker, "a healthy worker was replaced"


@pytest.mark.parametrize("step", STEPS)
async def test_a_server_leads_soon_after_its_predecessor_was_killed_whatever_the_clock_says(
    running: Product, step: str
) -> None:
    before = running.worker_pids()[SESSION]
    await set_clock(running.redis, STEPS[step])
    running.parts["orchestrator"].kill()

    async def accepted() -> bool:
        try:
            return (await running.api.post(f"/api/sessions/{SESSION}/restart")).is_success
        except httpx.HTTPError:
            return False

    await until(accepted, "the new server answers")
    await until(
        lambda: running.worker_pids().get(SESSION, before) != before,
        "it leads: the worker is replaced as the operator wished",
        promised(10),
    )
    await until(lambda: running.is_connected(SESSION), "the session is connected")


@pytest.mark.parametrize("step", ["+1 h", "-1 h"])
async def test_a_worker_that_freezes_after_the_clock_was_set_is_replaced(running: Product, step: str) -> None:
    frozen = running.worker_pids()[SESSION]
    await set_clock(running.redis, STEPS[step])
    os.kill(frozen, signal.SIGSTOP)
    await until(lambda: running.worker_pids().get(SESSION, frozen) != frozen, "it is replaced", promised(60))
    await until(lambda: running.is_connected(SESSION), "the session is connected")


@pytest.mark.parametrize("step", ["+1 h", "-1 h"])
async def test_a_session_comes_online_although_the_servers_own_clock_was_set(running: Product, step: str) -> None:
    before = running.worker_pids()[SESSION]
    set_server_clock(running.home / "data", STEPS[step])
    (await running.api.post(f"/api/sessions/{SESSION}/restart")).raise_for_status()
    await until(lambda: running.worker_pids().get(SESSION, before) != before, "a new worker")
    await until(lambda: running.is_connected(SESSION), "the server believes its reports")
    message, _ = await send(running)
    await until(lambda: is_sent(running, message), "it is sent")
