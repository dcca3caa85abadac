"""A worker that ends slowly after its session has moved: nobody else gets its slot before it is gone, whoever leads."""

import asyncio
import os
import signal
from contextlib import suppress
from typing import Any

import httpx
import pytest

from tests.e2e.product import Product, product
from tests.waiting import LOOK_AGAIN_S, until
from wa_orchestrator.store import records
from wa_orchestrator.store.engine.cancellation import end_if_cancelled
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.records import Session

MOVING, PHONE = "north", "972501100401"
CANDIDATE, NEW_PHONE = "south", "972501100402"
#: One session fills a proxy here, so the second one is what the fifth is in the field.
SETTINGS = {"MAX_SESSIONS_PER_PROXY": "1", "MONITOR_INTERVAL_MS": "2000", "PING_TIMEOUT_MS": "2000000"}

pytestmark = [pytest.mark.slow, pytest.mark.asyncio]


async def recorded(running: Product, session: str) -> Session:
    found = await records.session(Scripts(running.redis), session)
    assert found is not None
    return found


async def note_slots(running: Product, most: dict[str, int]) -> None:
    """Note the most sessions that ever held a slot on each proxy, until cancelled."""
    while True:
        for proxy in await records.proxies(Scripts(running.redis)):
            most[proxy.id] = max(most.get(proxy.id, 0), len(proxy.sessions))
        end_if_cancelled()
        await asyncio.sleep(LOOK_AGAIN_S)


async def drain(running: Product, proxy: str) -> None:
    """An operator moves everybody off a proxy; the answer is lost with the server."""
    with suppress(httpx.HTTPError):
        await running.api.delete(f"/api/v1/proxies/{proxy}", params={"drain": "true"})


async def reinstated(running: Product, proxy: str) -> bool:
    with suppress(httpx.HTTPError):
        return (await running.api.post(f"/api/v1/proxies/{proxy}/reinstate")).is_success
    return False


async def provisioned(running: Product, refusals: list[str]) -> bool:
    made = await running.api.post("/api/sessions/provision", json={"sessionId": CANDIDATE})
    if made.status_code == httpx.codes.CONFLICT:
        refusals.append(made.json()["error"]["code"])
    return made.status_code == httpx.codes.CREATED


async def exits(running: Product) -> list[dict[str, Any]]:
    """The proxies as the simulator sees them."""
    answer = await running.control.get("/proxies", params={"log": "false"})
    found: list[dict[str, Any]] = answer.raise_for_status().json()
    return found


async def test_a_slot_is_free_only_when_the_slow_worker_is_gone_although_the_server_was_killed() -> None:
    async with product(proxies=2, **SETTINGS) as running:
        await running.link(MOVING, PHONE)
        old_proxy = (await recorded(running, MOVING)).proxy
        most_slots: dict[str, int] = {}
        watching = asyncio.create_task(note_slots(running, most_slots))
        frozen = running.worker_pids()[MOVING]
        os.kill(frozen, signal.SIGSTOP)
        moving = asyncio.create_task(drain(running, old_proxy))

        async def left() -> bool:
            return (await recorded(running, MOVING)).proxy != old_proxy

        await until(left, "the session has left its proxy")
        running.parts["orchestrator"].kill()
        await moving
        assert running.worker_pids().get(MOVING) == frozen, "void: the worker ended before the server"
        await until(lambda: reinstated(running, old_proxy), "the old proxy is in use again")
        refusals: list[str] = []
        await until(lambda: provisioned(running, refusals), lambda: f"the slot becomes free: {refusals[-1:]}")
        assert running.worker_pids().get(MOVING) != frozen, "the slot was given away while the worker ran"
        assert set(refusals) == {"NO_PROXY_CAPACITY"}, "void: nobody asked for the slot while the worker ran"
        assert (await recorded(running, CANDIDATE)).proxy == old_proxy
        await running.scan(CANDIDATE, NEW_PHONE)
        await until(lambda: running.is_connected(MOVING), "the moved session is connected")
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        assert [(proxy["live"], proxy["highWater"]) for proxy in await exits(running)] == [(1, 1), (1, 1)]
        assert set(most_slots.values()) == {1}
