"""The pool of proxies: add, mark, remove."""

from dataclasses import dataclass, replace
from typing import Any

from wa_orchestrator.domain.proxies.proxy_url import ProxyUrl
from wa_orchestrator.domain.stream_events import EventType, ProxyOutage
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.compare_and_set import Changed
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.outcomes import Removed, Unknown, Written
from wa_orchestrator.store.record_codec import flat
from wa_orchestrator.store.records import ProxyChanges


@dataclass(frozen=True, slots=True)
class InUse:
    """This many sessions use it."""

    count: int


async def add(scripts: Scripts, proxy_id: str, *, url: str, masked: str, origin: str) -> bool:
    """Add a proxy to the pool, OK until a check says otherwise; False if it is in the pool, whatever its status."""
    names = [keys.proxy(proxy_id), keys.PROXIES_ALL, keys.PROXIES_AVAILABLE, keys.EVENTS]
    return await scripts.whether("add_proxy", names, [proxy_id, url, masked, origin], added=True, known=False)


async def recognized(scripts: Scripts, url: ProxyUrl) -> ProxyUrl:
    """Return the URL with the id under which the pool knows it: a proxy keeps its id when its password changes."""
    known: Any = await scripts.redis.hget(keys.PROXY_ALIASES, url.id)
    return replace(url, known_as=str(known)) if known else url


async def change(scripts: Scripts, proxy_id: str, fields: ProxyChanges, *, alias: str = "") -> bool:
    """Write what an operator chose; `alias` is the id that a changed URL would give. False if the proxy is removed."""
    names = [keys.proxy(proxy_id), keys.PROXY_ALIASES]
    args = [proxy_id, alias, *flat(fields)]
    return await scripts.whether("change_proxy", names, args, changed_it=True, unknown=False)


async def mark(
    scripts: Scripts, proxy_id: str, *, version: int, status: str, reason: str, fields: ProxyChanges
) -> Written | Changed | Unknown:
    """Write the result of a check or a strike, if the proxy was not written meanwhile."""
    names = [keys.proxy(proxy_id), keys.PROXIES_AVAILABLE, keys.EVENTS]
    args = [proxy_id, version, status, reason, *flat(fields)]
    return await scripts.ask("mark_proxy", names, args, marked=Written, changed=Changed, unknown=Unknown)


async def begin_outage(scripts: Scripts, *, failing: int, healthy: int) -> bool:
    """Record that our own connection is down; False if that is known already."""
    return await scripts.whether(
        "begin_outage", [keys.PROXY_OUTAGE, keys.EVENTS], [failing, healthy], begun=True, known=False
    )


async def end_outage(scripts: Scripts) -> bool:
    """Record that our own connection works again; False if it was not down."""
    return await scripts.whether("end_outage", [keys.PROXY_OUTAGE, keys.EVENTS], ended=True, none=False)


async def report_inventory(scripts: Scripts, low: str) -> None:
    """Emit an event when slots begin to run low; `low` has the counts, '' if there are enough."""
    names = [keys.LOW_INVENTORY, keys.EVENTS]
    args = [low, EventType.PROXY_LOW_INVENTORY]
    await scripts.whether("report_inventory", names, args, told=True, known=False, enough=False)


async def outage(scripts: Scripts) -> ProxyOutage | None:
    """Return how many proxies failed at once when our own connection went down; None if it works."""
    failing, healthy = await scripts.redis.hmget(keys.PROXY_OUTAGE, ["failing", "healthy"])
    return ProxyOutage(int(failing), int(healthy or 0)) if failing else None


async def is_inventory_low(scripts: Scripts) -> bool:
    """Whether people were told that free slots run low, and they still do."""
    return bool(await scripts.redis.exists(keys.LOW_INVENTORY))


async def outage_began_ms(scripts: Scripts) -> int | None:
    """Return since when our own connection is down; None if it works."""
    began: Any = await scripts.redis.hget(keys.PROXY_OUTAGE, "began_at")
    return int(float(began)) if began else None


async def remove(scripts: Scripts, proxy_id: str) -> Removed | InUse | Unknown:
    """Remove a proxy from the pool, if no session uses it."""
    names = [
        keys.proxy(proxy_id),
        keys.PROXIES_ALL,
        keys.PROXIES_AVAILABLE,
        keys.sessions_of_proxy(proxy_id),
        keys.EVENTS,
    ]
    return await scripts.ask("remove_proxy", names, [proxy_id], removed=Removed, in_use=InUse, unknown=Unknown)
