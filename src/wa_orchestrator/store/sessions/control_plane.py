"""State of the control plane: requests to look at a session, the start queue, restart counts, the leader's pulse."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.records import Session


class StartKind(Enum):
    """What a start leads to; the value is the queue."""

    LINK = keys.PROVISIONING
    RESTART = keys.RESTARTING


@dataclass(frozen=True, slots=True)
class StartPlan:
    """How many sessions wait in each queue, and the instants that the pace depends on (0 for never)."""

    links: int
    restarts: int
    linked_last_ms: int
    restart_after_ms: int


def start_kind(session: Session) -> StartKind:
    """Return what the start of a session's worker leads to."""
    return StartKind.RESTART if session.first_connected_at else StartKind.LINK


async def is_installed(scripts: Scripts) -> bool:
    """Whether this Redis was used before; not after it has lost its data."""
    return bool(await scripts.redis.exists(keys.INSTALLATION))


async def mark_installed(scripts: Scripts) -> None:
    await scripts.redis.set(keys.INSTALLATION, await scripts.now_ms(), nx=True)


async def request_attention(scripts: Scripts, session_id: str) -> None:
    """Ask the leader to look at a session now."""
    await scripts.redis.rpush(keys.CONTROL_ATTEND, session_id)


async def next_attention(scripts: Scripts, timeout_s: float) -> str | None:
    """Wait for the next session to look at; None after `timeout_s`."""
    popped: Any = await scripts.redis.blpop([keys.CONTROL_ATTEND], timeout=timeout_s)
    return None if popped is None else str(popped[1])


async def enqueue_start(scripts: Scripts, session_id: str, kind: StartKind, *, front: bool) -> None:
    """Put a session into a start queue, unless it is there."""
    redis = scripts.redis
    if await redis.lpos(kind.value, session_id) is None:
        await (redis.lpush if front else redis.rpush)(kind.value, session_id)


async def dequeue_start(scripts: Scripts, kind: StartKind) -> str | None:
    session_id: Any = await scripts.redis.lpop(kind.value)
    return None if session_id is None else str(session_id)


async def cancel_start(scripts: Scripts, session_id: str) -> None:
    for kind in StartKind:
        await scripts.redis.lrem(kind.value, 0, session_id)


async def start_plan(scripts: Scripts) -> StartPlan:
    pipe = scripts.redis.pipeline(transaction=False)
    pipe.llen(keys.PROVISIONING)
    pipe.llen(keys.RESTARTING)
    pipe.mget(keys.STARTED_LAST, keys.RESTART_AFTER)
    links, restarts, (linked_last, restart_after) = await pipe.execute()
    return StartPlan(links, restarts, int(linked_last or 0), int(restart_after or 0))


async def record_link_start(scripts: Scripts, now_ms: int) -> None:
    await scripts.redis.set(keys.STARTED_LAST, now_ms)


async def set_restart_after(scripts: Scripts, at_ms: int) -> None:
    await scripts.redis.set(keys.RESTART_AFTER, at_ms)


async def count_restart(scripts: Scripts, session_id: str, *, now_ms: int, window_ms: int) -> int:
    """Count a restart. Return how many there were within the window before it."""
    key = keys.restarts(session_id)
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.zremrangebyscore(key, 0, now_ms - window_ms)
        pipe.zremrangebyscore(key, f"({now_ms}", "+inf")  # Redis' clock was set back since
        pipe.zcard(key)
        pipe.zadd(key, {f"{now_ms}": now_ms})
        pipe.pexpire(key, window_ms)
        _, _, before, _, _ = await pipe.execute()
    return int(before)


async def forget_restarts(scripts: Scripts, session_id: str) -> None:
    """Reset the restart count of a session: an operator started it."""
    await scripts.redis.delete(keys.restarts(session_id))


async def forget_restarts_since(scripts: Scripts, session_ids: Sequence[str], since_ms: int) -> None:
    """Take back the restarts that were counted since an instant."""
    async with scripts.redis.pipeline(transaction=False) as pipe:
        for session_id in session_ids:
            pipe.zremrangebyscore(keys.restarts(session_id), since_ms, "+inf")
        await pipe.execute()


async def record_pulse(scripts: Scripts, now_ms: int) -> int | None:
    """Record that a leader is active now. Return when one was before; None for never."""
    before: Any = await scripts.redis.set(keys.CONTROL_PULSE, now_ms, get=True)
    return None if before is None else int(before)
