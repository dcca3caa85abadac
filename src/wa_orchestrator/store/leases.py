"""Rate limits of API keys, and leases for jobs that one process does at a time."""

from dataclasses import dataclass

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Reply, Scripts, unexpected


@dataclass(frozen=True, slots=True)
class Allowed:
    """The call is within the rate."""

    left: int


@dataclass(frozen=True, slots=True)
class Limited:
    """Too many calls; retry after this time."""

    retry_after_ms: int


async def rate(scripts: Scripts, api_key_id: str, *, gap_ms: float, burst: int, cost: int = 1) -> Allowed | Limited:
    """Count a call of this key against its rate (GCRA)."""
    return read_rate(await scripts.run("spend_rate", [keys.rate(api_key_id)], [gap_ms, burst, cost]))


def read_rate(reply: Reply) -> Allowed | Limited:
    """Return the script's reply as a value."""
    match reply:
        case ["allowed", left]:
            return Allowed(int(left))
        case ["limited", retry_after]:
            return Limited(int(retry_after))
        case _:
            raise unexpected("spend_rate", reply)


@dataclass(frozen=True, slots=True)
class Holding:
    """The caller holds the lease. `value` proves it to other scripts and contains the fencing number."""

    value: str


@dataclass(frozen=True, slots=True)
class Taken:
    """Another process holds the lease, for at least this long."""

    value: str
    left_ms: int


async def acquire_lease(scripts: Scripts, name: str, *, owner: str, lease_ms: int) -> Holding | Taken:
    """Acquire or renew a lease. `owner` contains no space and is unique to a process."""
    reply = await scripts.run("acquire_lease", [keys.lease(name), keys.fence(name)], [owner, lease_ms])
    match reply:
        case ["held", value]:
            return Holding(str(value))
        case ["taken", value, left]:
            return Taken(str(value), int(left))
        case _:
            raise unexpected("acquire_lease", reply)


async def release_lease(scripts: Scripts, name: str, holding: Holding) -> None:
    """Release a lease; nothing happens if it was lost already."""
    reply = await scripts.run("release_lease", [keys.lease(name)], [holding.value])
    if reply[0] not in ("released", "not_held"):
        raise unexpected("release_lease", reply)
