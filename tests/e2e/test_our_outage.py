"""Our own line fails twice within minutes, and the server with it: no phone changes its exit."""

import asyncio
import signal
from contextlib import suppress
from typing import Any

import httpx
import pytest

from tests.e2e.product import Product, product
from tests.waiting import until
from wa_orchestrator.store import records
from wa_orchestrator.store.engine.scripts import Scripts

PHONES = {"north": "972501100901", "south": "972501100902", "east": "972501100903"}
#: Time is not scaled here: workers and the kernel take as long as in the field to notice that a line is dead.
SETTINGS = {"MONITOR_INTERVAL_MS": "2000"}

pytestmark = [pytest.mark.slow, pytest.mark.asyncio]


async def proxies(running: Product) -> list[dict[str, Any]]:
    """The proxies as the simulator sees them."""
    answer = await running.control.get("/proxies", params={"log": "false"})
    found: list[dict[str, Any]] = answer.raise_for_status().json()
    return found


async def lose_uplink(running: Product) -> None:
    """No connection lasts, and nobody gets an answer through any proxy."""
    for proxy in await proxies(running):
        for kind in ("blackhole", "drop"):
            fault = {"target": {"proxy": proxy["id"]}, "kind": kind}
            (await running.control.post("/faults", json=fault)).raise_for_status()


async def regain_uplink(running: Product) -> None:
    (await running.control.delete("/faults")).raise_for_status()


async def exits(running: Product) -> dict[str, str]:
    return {session.id: session.proxy for session in await records.sessions(Scripts(running.redis))}


async def events(running: Product, *kinds: str) -> list[dict[str, str]]:
    written: Any = await running.redis.xrange("events")
    return [fields for _, fields in written if fields["type"] in kinds]


async def is_online(running: Product) -> bool:
    """Whether WhatsApp itself sees every phone, and the server says so too."""
    connections = (await running.control.get("/connections")).raise_for_status().json()
    seen = {each["phone"] for each in connections}
    return seen >= set(PHONES.values()) and all([await running.is_connected(session) for session in PHONES])


async def server_answers(running: Product) -> bool:
    with suppress(httpx.HTTPError):
        return (await running.api.get("/health")).is_success
    return False


async def the_server_dies_while_the_line_is_dead(running: Product) -> None:
    await lose_uplink(running)

    async def is_told() -> bool:
        return bool(await events(running, "proxy.outage"))

    await until(is_told, "the operator is told that the outage is ours")
    running.parts["orchestrator"].kill()
    await until(lambda: server_answers(running), "the server is back")
    await regain_uplink(running)

    async def is_over() -> bool:
        return bool(await events(running, "proxy.outage_ended"))

    await until(is_over, "the operator is told that it is over")
    await until(lambda: is_online(running), "everybody is online again")


async def the_line_dies_while_the_server_is_away(running: Product) -> None:
    """The workers' complaints are kept for the server's return, when every proxy works again."""
    running.parts["orchestrator"].end(signal.SIGKILL)
    await lose_uplink(running)
    dialled = {proxy["id"]: proxy["accepted"] for proxy in await proxies(running)}

    async def have_complained() -> bool:  # each tries once more, so its first try has failed
        return all(proxy["accepted"] >= dialled[proxy["id"]] + 2 for proxy in await proxies(running))

    await until(have_complained, "every worker has found its proxy dead")
    await regain_uplink(running)
    running.parts["orchestrator"].start()

    def are_told() -> bool:
        return (running.home / "orchestrator.log").read_text().count("proxy.complaint_ignored") >= len(PHONES)

    await until(are_told, "every worker's complaint has reached the server")
    await until(lambda: is_online(running), "everybody is online again")


async def test_no_phone_changes_its_exit_because_our_line_was_dead_twice_and_our_server_too() -> None:
    async with product(proxies=len(PHONES), **SETTINGS) as running:
        await asyncio.gather(*(running.link(session, phone) for session, phone in PHONES.items()))
        workers, before = running.worker_pids(), await exits(running)
        assert len(set(before.values())) == len(PHONES), "void: each session is to have a proxy of its own"
        await the_server_dies_while_the_line_is_dead(running)
        await the_line_dies_while_the_server_is_away(running)
        assert await exits(running) == before
        assert await events(running, "session.moved", "session.slot_lost", "proxy.bad") == []
        assert running.worker_pids() == workers, "nobody was restarted"
