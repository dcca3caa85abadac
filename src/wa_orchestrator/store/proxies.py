"""The pool of proxies: add, mark, remove."""

from dataclasses import dataclass
from typing import Any

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.compare_and_set import Changed
from wa_orchestrator.store.engine.scripts import Scripts, unexpected
from wa_orchestrator.store.record_codec import flat
from wa_orchestrator.store.records import ProxyChanges


@dataclass(frozen=True, slots=True)
class Added:
    """It is in the pool, OK until a check says otherwise."""


@dataclass(frozen=True, slots=True)
class Known:
    """It was in the pool before, with this status."""

    status: str


@dataclass(frozen=True, slots=True)
class Marked:
    """Written; this is the proxy's version now."""

    version: int


@dataclass(frozen=True, slots=True)
class Unknown:
    """There is no such proxy."""


@dataclass(frozen=True, slots=True)
class Removed:
    """It was removed."""


@dataclass(frozen=True, slots=True)
class InUse:
    """This many sessions use it."""

    count: int


async def add(scripts: Scripts, proxy_id: str, *, url: str, masked: str, origin: str) -> Added | Known:
    """Add a proxy to the pool."""
    names = [keys.proxy(proxy_id), keys.PROXIES_ALL, keys.PROXIES_AVAILABLE, keys.EVENTS]
    reply = await scripts.run("add_proxy", names, [proxy_id, url, masked, origin])
    match reply:
        case ["added"]:
            return Added()
        case ["known", status]:
            return Known(str(status))
        case _:
            raise unexpected("add_proxy", reply)


async def mark(
    scripts: Scripts, proxy_id: str, *, version: int, status: str, reason: str, fields: ProxyChanges
) -> Marked | Changed | Unknown:
    """Write the result of a check or a strike, if the proxy was not written meanwhile."""
    names = [keys.proxy(proxy_id), keys.PROXIES_AVAILABLE, keys.EVENTS]
    reply = await scripts.run("mark_proxy", names, [proxy_id, version, status, reason, *flat(fields)])
    match reply:
        case ["marked", now]:
            return Marked(int(now))
        case ["changed", _]:
            return Changed()
        case ["unknown"]:
            return Unknown()
        case _:
            raise unexpected("mark_proxy", reply)


async def begin_outage(scripts: Scripts, *, failing: int, healthy: int) -> bool:
    """Record that our own connection is down; False if that is known already."""
    reply = await scripts.run("begin_outage", [keys.PROXY_OUTAGE, keys.EVENTS], [failing, healthy])
    if reply[0] not in ("begun", "known"):
        raise unexpected("begin_outage", reply)
    return bool(reply[0] == "begun")


async def end_outage(scripts: Scripts) -> bool:
    """Record that our own connection works again; False if it was not down."""
    reply = await scripts.run("end_outage", [keys.PROXY_OUTAGE, keys.EVENTS])
    if reply[0] not in ("ended", "none"):
        raise unexpected("end_outage", reply)
    return bool(reply[0] == "ended")


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
    reply = await scripts.run("remove_proxy", names, [proxy_id])
    match reply:
        case ["removed"]:
            return Removed()
        case ["in_use", count]:
            return InUse(int(count))
        case ["unknown"]:
            return Unknown()
        case _:
            raise unexpected("remove_proxy", reply)
