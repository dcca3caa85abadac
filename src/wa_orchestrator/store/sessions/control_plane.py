"""State of the control plane: requests to look at a session, the start queue, restart counts, the leader's pulse."""

from typing import Any

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts


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


async def enqueue_start(scripts: Scripts, session_id: str, *, front: bool) -> None:
    """Put a session into the start queue, unless it is there."""
    redis = scripts.redis
    if await redis.lpos(keys.PROVISIONING, session_id) is None:
        await (redis.lpush if front else redis.rpush)(keys.PROVISIONING, session_id)


async def dequeue_start(scripts: Scripts) -> str | None:
    session_id: Any = await scripts.redis.lpop(keys.PROVISIONING)
    return None if session_id is None else str(session_id)


async def cancel_start(scripts: Scripts, session_id: str) -> None:
    await scripts.redis.lrem(keys.PROVISIONING, 0, session_id)


async def starts_waiting(scripts: Scripts) -> int:
    return int(await scripts.redis.llen(keys.PROVISIONING))


async def last_start_ms(scripts: Scripts) -> int:
    """Return when a worker was started last; 0 for never."""
    return int(await scripts.redis.get(keys.STARTED_LAST) or 0)


async def record_start(scripts: Scripts, now_ms: int) -> None:
    await scripts.redis.set(keys.STARTED_LAST, now_ms)


async def count_restart(scripts: Scripts, session_id: str, *, now_ms: int, window_ms: int) -> int:
    """Count a restart. Return how many there were within the window before it."""
    key = keys.restarts(session_id)
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.zremrangebyscore(key, 0, now_ms - window_ms)
        pipe.zcard(key)
        pipe.zadd(key, {f"{now_ms}": now_ms})
        pipe.pexpire(key, window_ms)
        _, before, _, _ = await pipe.execute()
    return int(before)


async def forget_restarts(scripts: Scripts, session_id: str) -> None:
    """Reset the restart count of a session: an operator started it."""
    await scripts.redis.delete(keys.restarts(session_id))


async def record_pulse(scripts: Scripts, now_ms: int) -> int | None:
    """Record that a leader is active now. Return when one was before; None for never."""
    before: Any = await scripts.redis.set(keys.CONTROL_PULSE, now_ms, get=True)
    return None if before is None else int(before)
