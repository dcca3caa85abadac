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


async def spend(scripts: Scripts, name: str, gap_ms: float, burst: int, count: int = 1) -> bool:
    """Count something against a rate of this name, one every `gap_ms`; False: there was too much of it."""
    reply = await scripts.run("spend_rate", [keys.rate(name)], [gap_ms, burst, count])
    return isinstance(read_rate(reply), Allowed)


async def spend_act(scripts: Scripts, session: str, act: str, *, gap_ms: float, burst: int) -> Allowed | Limited:
    """Count something that a session does besides sending against its own light limit."""
    return read_rate(await scripts.run("spend_rate", [keys.act_rate(session, act)], [gap_ms, burst, 1]))


@dataclass(frozen=True, slots=True)
class Holding:
    """The caller holds the lease. `value` proves it to other scripts and contains the fencing number."""

    value: str


@dataclass(frozen=True, slots=True)
class LeaseTaken:
    """Another process holds the lease, for at least this long."""

    value: str
    left_ms: int

    @property
    def owner(self) -> str:
        """Who holds it."""
        return self.value.partition(" ")[0]


async def is_present(scripts: Scripts, owner: str) -> bool:
    """Whether a process listens on its own channel. Redis knows at once when it has ended, however it did."""
    ((_, listeners),) = await scripts.redis.pubsub_numsub(keys.leader_presence(owner))
    return int(listeners) > 0


async def acquire_lease(scripts: Scripts, name: str, *, owner: str, lease_ms: int) -> Holding | LeaseTaken:
    """Acquire or renew a lease. `owner` contains no space and is unique to a process."""
    return await scripts.ask(
        "acquire_lease", [keys.lease(name), keys.fence(name)], [owner, lease_ms], held=Holding, taken=LeaseTaken
    )


async def release_lease(scripts: Scripts, name: str, holding: Holding) -> None:
    """Release a lease; nothing happens if it was lost already."""
    await scripts.whether("release_lease", [keys.lease(name)], [holding.value], released=True, not_held=False)
