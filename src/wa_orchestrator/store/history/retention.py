"""Retention: bodies are erased first, whole messages later, in bounded steps."""

from typing import Any

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.history.ended_messages import removal_layout


async def ended_until(scripts: Scripts, until_ms: int, *, most: int) -> list[str]:
    """Return the messages that ended first, at `until_ms` at the latest."""
    found: Any = await scripts.redis.zrangebyscore(keys.ENDED, "-inf", until_ms, start=0, num=most)
    return [str(message_id) for message_id in found]


async def erase(scripts: Scripts, message_id: str, *, until_ms: int) -> bool:
    """Erase a message that ended at `until_ms` at the latest. Return whether it was erased."""
    named = ("session", "to", "reference", "batch")
    known: Any = await scripts.redis.hmget(keys.message(message_id), named)
    names = removal_layout(message_id, dict(zip(named, known, strict=True)))
    return await scripts.whether("erase_message", names, [message_id, until_ms], erased=True, kept=False)


async def erase_bodies(scripts: Scripts, until_ms: int, *, most: int) -> int:
    """Erase the texts of messages that ended at `until_ms` at the latest; the rest of each stays. Return how many
    messages were examined.

    A mark remembers how far it came, so that no text is examined twice.
    """
    mark = int(await scripts.redis.get(keys.BODIES_ERASED) or 0)
    found: Any = await scripts.redis.zrangebyscore(keys.ENDED, mark, until_ms, start=0, num=most, withscores=True)
    if not found:
        return 0
    last = int(found[-1][1])
    # All messages of the last millisecond are included, so that the cursor can be set after it.
    whole: Any = await scripts.redis.zrangebyscore(keys.ENDED, last, last)
    ids = {str(message_id) for message_id, _ in found} | {str(message_id) for message_id in whole}
    await scripts.each(lambda pipe, key: pipe.hdel(key, "body"), map(keys.message, ids))
    await scripts.redis.set(keys.BODIES_ERASED, last + 1)
    return len(ids)
