"""Counts of messages: by status, and by day, of each session and of all together."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import Any, Final

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts

#: What is counted by day.
COUNTED: Final = ("sent", "delivered", "read", "failed", "unknown")
_OF_ALL: Final = tuple(f"all:{name}" for name in COUNTED)

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
#: The last zone enters a day twelve hours after UTC does.
_LAST_ZONE_MS: Final = 12 * _HOUR_MS

DayCounts = Mapping[str, int]


async def by_status(scripts: Scripts) -> dict[str, int]:
    """Return how many messages have each status, and `accepted`: how many there were at all."""
    raw: Any = await scripts.redis.hgetall(keys.COUNTS)
    return {name: int(count) for name, count in raw.items()}


async def by_day(scripts: Scripts, session_id: str, days: Sequence[str]) -> list[DayCounts]:
    """Return the counts of a session for each of these days (`20250131`)."""
    return await _read(scripts, [keys.stats(session_id, day) for day in days])


async def of_sessions(scripts: Scripts, sessions: Collection[str], days: Sequence[str]) -> list[DayCounts]:
    """Return the counts of some sessions together for each of these days, in one round trip."""
    counts = await _read(scripts, [keys.stats(session_id, day) for day in days for session_id in sessions])
    each = len(sessions)
    return [
        {name: sum(row[name] for row in counts[at * each : (at + 1) * each]) for name in COUNTED}
        for at in range(len(days))
    ]


async def of_all(scripts: Scripts, days: Sequence[str], *, now_ms: int) -> list[tuple[DayCounts, DayCounts]]:
    """Return the counts of each of these days: of all sessions together, and of messages without a sender.

    The cost does not depend on how many sessions there are, except once an hour and once after a day has ended.
    """
    found = await _read_days(scripts, days)
    outdated = [day for day, raw in zip(days, found, strict=True) if not _is_summed(int(raw[0] or 0), day, now_ms)]
    if outdated:
        sessions: Any = await scripts.redis.smembers(keys.SESSIONS_ALL)
        for day in outdated:
            names = [keys.day_stats(day), *(keys.stats(session_id, day) for session_id in sessions)]
            await scripts.whether("sum_day_counts", names, COUNTED, summed=True)
        found = await _read_days(scripts, days)
    every = len(COUNTED)
    return [(_counts(raw[1 : 1 + every]), _counts(raw[1 + every :])) for raw in found]


def _is_summed(summed_at_ms: int, day: str, now_ms: int) -> bool:
    """Whether the counts of all sessions were compared with the sessions' own in the last hour, or after the day."""
    begins = (date.fromisoformat(day) - date(1970, 1, 1)).days * _DAY_MS
    return summed_at_ms > now_ms - _HOUR_MS or summed_at_ms > begins + _DAY_MS + _LAST_ZONE_MS


async def _read_days(scripts: Scripts, days: Sequence[str]) -> list[Any]:
    names = ("summed_at", *_OF_ALL, *COUNTED)
    return await scripts.each(lambda pipe, key: pipe.hmget(key, names), map(keys.day_stats, days))


async def _read(scripts: Scripts, names: Sequence[str]) -> list[DayCounts]:
    return [_counts(raw) for raw in await scripts.each(lambda pipe, key: pipe.hmget(key, COUNTED), names)]


def _counts(raw: Sequence[Any]) -> DayCounts:
    return {name: int(count or 0) for name, count in zip(COUNTED, raw, strict=True)}
