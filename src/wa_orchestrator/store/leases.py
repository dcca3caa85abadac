"""How often a key may call, and who may do a job that only one may do."""

from dataclasses import dataclass

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Reply, Scripts, unexpected


@dataclass(frozen=True, slots=True)
class Allowed:
    """The call may go on."""

    left: int


@dataclass(frozen=True, slots=True)
class Limited:
    """Too many calls; the next one may come after this time."""

    retry_after_ms: int


async def rate(scripts: Scripts, api_key_id: str, *, gap_ms: float, burst: int, cost: int = 1) -> Allowed | Limited:
    """Count a call of this key against its rate (GCRA)."""
    return read_rate(await scripts.run("spend_rate", [keys.rate(api_key_id)], [gap_ms, burst, cost]))


def read_rate(reply: Reply) -> Allowed | Limited:
    """The script's words as a value."""
    match reply:
        case ["allowed", left]:
            return Allowed(int(left))
        case ["limited", retry_after]:
            return Limited(int(retry_after))
        case _:
            raise unexpected("spend_rate", reply)


@dataclass(frozen=True, slots=True)
class Holding:
    """The caller has the job. `value` proves it to other scripts and holds the fencing number."""

    value: str


@dataclass(frozen=True, slots=True)
class Taken:
    """Another has the job for so long at least."""

    value: str
    left_ms: int


async def acquire_lease(scripts: Scripts, name: str, *, owner: str, lease_ms: int) -> Holding | Taken:
    """Take a job, or keep it. `owner` holds no space and is unique to a process."""
    reply = await scripts.run("acquire_lease", [keys.lease(name), keys.fence(name)], [owner, lease_ms])
    match reply:
        case ["held", value]:
            return Holding(str(value))
        case ["taken", value, left]:
            return Taken(str(value), int(left))
        case _:
            raise unexpected("acquire_lease", reply)


async def release_lease(scripts: Scripts, name: str, holding: Holding) -> None:
    """Give a job back; nothing happens if it is lost already."""
    reply = await scripts.run("release_lease", [keys.lease(name)], [holding.value])
    if reply[0] not in ("released", "not_held"):
        raise unexpected("release_lease", reply)
