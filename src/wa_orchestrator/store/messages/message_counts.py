"""Counts of messages: by status, and by day and session."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts

#: What is counted by day.
COUNTED: Final = ("sent", "delivered", "read", "failed", "unknown")

DayCounts = Mapping[str, int]


async def by_status(scripts: Scripts) -> dict[str, int]:
    """Return how many messages have each status, and `accepted`: how many there were at all."""
    raw: Any = await scripts.redis.hgetall(keys.COUNTS)
    return {name: int(count) for name, count in raw.items()}


async def by_day(scripts: Scripts, session_id: str, days: Sequence[str]) -> list[DayCounts]:
    """Return the counts of a session for each of these days (`20250131`)."""
    return await _read(scripts, [keys.stats(session_id, day) for day in days])


async def of_day(scripts: Scripts, sessions: Sequence[str], day: str) -> tuple[DayCounts, list[DayCounts]]:
    """Return the counts of a day: of messages without a sender, and of each session."""
    without_sender, *counted = await _read(
        scripts, [keys.stats_of_nobody(day), *(keys.stats(session_id, day) for session_id in sessions)]
    )
    return without_sender, counted


async def _read(scripts: Scripts, names: Sequence[str]) -> list[DayCounts]:
    found = await scripts.each(lambda pipe, key: pipe.hmget(key, COUNTED), names)
    return [{name: int(count or 0) for name, count in zip(COUNTED, counts, strict=True)} for counts in found]
