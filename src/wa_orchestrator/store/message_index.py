"""Reads indexes of messages, the newest first, by the time of acceptance."""

from typing import Any

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts

IndexEntry = tuple[str, int]
"""A message id and when the message was accepted."""


async def page(
    scripts: Scripts,
    index: str,
    *,
    after: IndexEntry | None = None,
    from_ms: int | None = None,
    until_ms: int | None = None,
    most: int,
) -> list[IndexEntry]:
    """Return the next entries of an index after `after` (None: from the start), accepted between the two instants."""
    low: str | int = "-inf" if from_ms is None else from_ms
    high: str | int = "+inf" if until_ms is None else until_ms
    if after is not None:
        message_id, accepted_at = after
        rank: Any = await scripts.redis.zrevrank(index, message_id)
        if rank is not None:
            raw: Any = await scripts.redis.zrevrange(index, rank + 1, rank + most, withscores=True)
            return [(str(each), int(at)) for each, at in raw if from_ms is None or at >= from_ms]
        high = f"({accepted_at}"  # the last entry of the page before was erased meanwhile
    raw = await scripts.redis.zrevrangebyscore(index, high, low, start=0, num=most, withscores=True)
    return [(str(each), int(at)) for each, at in raw]


async def count_newer(scripts: Scripts, than_ms: int) -> int:
    """Return how many messages were accepted after an instant."""
    return int(await scripts.redis.zcount(keys.ALL_MESSAGES, f"({than_ms}", "+inf"))
