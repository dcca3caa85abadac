"""A wave of 405 with real workers: all sessions come back by themselves after one of them has asked."""

from typing import Any

import pytest

from tests.e2e.product import Product, product, unhurried
from tests.waiting import until
from wa_orchestrator.store import keys

FLEET = {"north": "972501100301", "south": "972501100302", "east": "972501100303"}
NEWER = 2_000_000_000

pytestmark = [pytest.mark.slow, pytest.mark.asyncio]


async def _states(running: Product) -> dict[str, tuple[str, str | None]]:
    told: list[dict[str, Any]] = (await running.api.get("/api/sessions")).raise_for_status().json()["sessions"]
    return {each["sessionId"]: (each["status"], each["reason"]) for each in told}


async def _fault(running: Product, kind: str, **more: Any) -> None:
    (await running.control.post("/faults", json={"target": "whatsapp", "kind": kind, **more})).raise_for_status()


async def test_real_sessions_that_a_newer_version_locked_out_come_back_by_themselves() -> None:
    # The first session asks again 45 s after it was refused: by then the others are refused, too, on a busy machine.
    settings = unhurried(20) | {"MONITOR_INTERVAL_MS": "2000", "RESTART_INTERVAL_MS": "100"}
    async with product(proxies=1, **settings) as running:
        for session, phone in FLEET.items():
            await running.link(session, phone)
        await _fault(running, "outdated", below=NEWER)
        await _fault(running, "drop")

        async def all_refused() -> bool:
            return set((await _states(running)).values()) == {("failed", "CLIENT_OUTDATED")}

        await until(all_refused, "every session is refused, and rests")
        (await running.control.put("/revision", json={"revision": NEWER})).raise_for_status()

        async def all_back() -> bool:
            return {state for state, _ in (await _states(running)).values()} == {"connected"}

        await until(all_back, "every session is back")
        entries: Any = await running.redis.xrange(keys.EVENTS)
        tries = [fields["session"] for _, fields in entries if fields.get("what") == "VERSION_RETRIED"]
        first = tries[0]
        order = [(fields["type"], fields.get("session")) for _, fields in entries if fields.get("session") in FLEET]
        released = order.index(("session.pending", tries[-1]), order.index(("session.pending", first)) + 1)
        assert ("session.connected", first) in order[order.index(("session.pending", first)) : released]
        assert sorted(set(tries)) == sorted(FLEET)
