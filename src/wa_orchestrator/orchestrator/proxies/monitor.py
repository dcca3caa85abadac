"""Proxy monitor: checks proxies when they are due and assigns slots to sessions that wait for one."""

import asyncio

from wa_orchestrator.context import Context
from wa_orchestrator.orchestrator.proxies import placement
from wa_orchestrator.orchestrator.proxies.health import ProxyHealth
from wa_orchestrator.store import records

_INTERVAL_S = 1.0


class ProxyMonitor:
    """Checks each proxy when it is due; bad ones at growing intervals."""

    def __init__(self, context: Context, proxy_health: ProxyHealth) -> None:
        self._context = context
        self._proxy_health = proxy_health

    async def step(self) -> float:
        """Check every proxy that is due, and whether enough slots are free."""
        now = await self._context.scripts.now_ms()
        due = [proxy.id for proxy in await records.proxies(self._context.scripts) if proxy.next_check_at <= now]
        await asyncio.gather(*(self._proxy_health.check(proxy_id) for proxy_id in due))
        if due:
            await self._proxy_health.end_outage()
        await placement.report_inventory(self._context)
        return min(_INTERVAL_S, self._context.settings.monitor_interval_ms / 1000)


class SlotAssigner:
    """Assigns slots to sessions that wait for one."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def step(self) -> float:
        """Assign the slots that are free."""
        await placement.assign_waiting(self._context)
        return 0.5
