"""Rate limits of API keys, and leases for jobs that one process does at a time."""

from collections.abc import Callable
from dataclasses import dataclass

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Reply, Scripts, read_outcome


@dataclass(frozen=True, slots=True)
class Allowed:
    """The call is within the rate."""

    left: int


@dataclass(frozen=True, slots=True)
class Limited:
    """Too many calls; retry after this time."""

    retry_after_ms: int


def read_rate(reply: Reply) -> Allowed | Limited:
    """Return the reply of `spend_rate`, which counts a call of an API key against its rate."""
    outcomes: dict[str, Callable[..., Allowed | Limited]] = {"allowed": Allowed, "limited": Limited}
    return read_outcome("spend_rate", reply, **outcomes)


@dataclass(frozen=True, slots=True)
class Holding:
    """The caller holds the lease. `value` proves it to other scripts and contains the fencing number."""

    value: str


@dataclass(frozen=True, slots=True)
class LeaseTaken:
    """Another process holds the lease, for at least this long."""

    value: str
    left_ms: int


async def acquire_lease(scripts: Scripts, name: str, *, owner: str, lease_ms: int) -> Holding | LeaseTaken:
    """Acquire or renew a lease. `owner` contains no space and is unique to a process."""
    return await scripts.ask(
        "acquire_lease", [keys.lease(name), keys.fence(name)], [owner, lease_ms], held=Holding, taken=LeaseTaken
    )


async def release_lease(scripts: Scripts, name: str, holding: Holding) -> None:
    """Release a lease; nothing happens if it was lost already."""
    await scripts.whether("release_lease", [keys.lease(name)], [holding.value], released=True, not_held=False)
