"""Proxy monitor: checks each proxy when it is due; bad ones at growing intervals."""

import asyncio

from wa_orchestrator.context import Context
from wa_orchestrator.domain.proxies.proxy_health import ProxyStatus, next_check_ms
from wa_orchestrator.orchestrator.proxies import placement
from wa_orchestrator.orchestrator.proxies.health import ProxyHealth
from wa_orchestrator.orchestrator.sessions import profile_inventory
from wa_orchestrator.store import records
from wa_orchestrator.store.records import Proxy

_INTERVAL_S = 1.0


async def check_due_proxies(context: Context, proxy_health: ProxyHealth) -> float:
    """Check the proxies that are due, and whether slots or profiles run low. Return the seconds until the next look."""
    now = await context.scripts.now_ms()
    due = [proxy.id for proxy in await records.proxies(context.scripts) if _is_due(context, proxy, now)]
    await asyncio.gather(*(proxy_health.check(proxy_id) for proxy_id in due))
    if due:
        await proxy_health.end_outage()
    await placement.report_inventory(context)
    await profile_inventory.report_low(context)
    return min(_INTERVAL_S, context.settings.monitor_interval_ms / 1000)


async def check_all(context: Context, proxy_health: ProxyHealth) -> None:
    """Check every proxy now, because somebody asked for it."""
    await asyncio.gather(*(proxy_health.check(proxy.id) for proxy in await records.proxies(context.scripts)))
    await proxy_health.end_outage()


def _is_due(context: Context, proxy: Proxy, now: int) -> bool:
    """Whether to check a proxy: also one that would wait too long, because Redis' clock was set back."""
    failures = proxy.bad_in_a_row if proxy.status is ProxyStatus.BAD else 0
    longest_ms = next_check_ms(failures, context.settings.monitor_interval_ms)
    return not now < proxy.next_check_at <= now + longest_ms
