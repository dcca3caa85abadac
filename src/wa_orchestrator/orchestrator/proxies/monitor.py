"""Looks after the pool: checks what is due, and gives slots to sessions that wait for one."""

import asyncio

from wa_orchestrator.context import Context
from wa_orchestrator.orchestrator import loop
from wa_orchestrator.orchestrator.leader_lease import LeaderLease
from wa_orchestrator.orchestrator.proxies import placement
from wa_orchestrator.orchestrator.proxies.health import ProxyHealth
from wa_orchestrator.store import records

_ROUND_S = 1.0
_AT_ONCE = 16


class ProxyMonitor:
    """Checks each proxy when its time has come; bad ones at growing intervals."""

    def __init__(self, context: Context, lease: LeaderLease, proxy_health: ProxyHealth) -> None:
        self._context = context
        self._lease = lease
        self._proxy_health = proxy_health
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def step(self) -> float:
        """Check what is due now."""
        if not self._lease.is_leader:
            return 0.2
        now = await self._context.scripts.now_ms()
        due = [
            proxy.id
            for proxy in await records.proxies(self._context.scripts)
            if int(proxy.fields.get("next_check_at") or 0) <= now
        ]
        await asyncio.gather(*(self._examine(proxy_id) for proxy_id in due))
        return min(_ROUND_S, self._context.settings.monitor_interval_ms / 1000)

    async def run(self) -> None:
        """Step until cancelled."""
        await loop.run("monitor", self)

    async def _examine(self, proxy_id: str) -> None:
        async with self._room:
            await self._proxy_health.check(proxy_id)


class SlotAssigner:
    """Finds slots for sessions that wait."""

    def __init__(self, context: Context, lease: LeaderLease) -> None:
        self._context = context
        self._lease = lease

    async def step(self) -> float:
        """Assign slots while there are any."""
        if self._lease.is_leader:
            await placement.assign_waiting(self._context)
        return 0.5

    async def run(self) -> None:
        """Step until cancelled."""
        await loop.run("seeker", self)
