"""Counts of messages by day, for one session and for all."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from wa_orchestrator.gateway.response_models import DayStats, SessionStats, TotalDayStats, TotalStats
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import message_counts
from wa_orchestrator.store.messages.message_counts import DayCounts

#: A day of all sessions is one round trip with one reply per session.
MAX_DAYS_OF_ALL: Final = 92


def dates(now_ms: int, zone: ZoneInfo, days: int) -> list[date]:
    """Return the last `days` dates in a time zone, today first."""
    today = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(zone).date()
    return [today - timedelta(days=back) for back in range(days)]


async def of_session(scripts: Scripts, session_id: str, of: Sequence[date]) -> SessionStats:
    """Return a session's counts for these days."""
    rows = await message_counts.by_day(scripts, session_id, [_name(day) for day in of])
    shown = [DayStats(date=day.isoformat(), **row) for day, row in zip(of, rows, strict=True)]
    return SessionStats(session_id=session_id, total=DayStats(date="total", **_sum(rows)), days=shown)


async def of_all(scripts: Scripts, sessions: Sequence[str], of: Sequence[date]) -> TotalStats:
    """Return the counts of all sessions together, each in its own time zone, and of messages without a session."""
    rows = [await _day_of_all(scripts, sessions, _name(day)) for day in of]
    shown = [TotalDayStats(date=day.isoformat(), **row) for day, row in zip(of, rows, strict=True)]
    return TotalStats(total=TotalDayStats(date="total", **_sum(rows)), days=shown)


async def _day_of_all(scripts: Scripts, sessions: Sequence[str], day: str) -> DayCounts:
    unsent, counted = await message_counts.of_day(scripts, sessions, day)
    return {**_sum([unsent, *counted]), "failed_without_sender": unsent["failed"] + unsent["unknown"]}


def _sum(rows: Sequence[DayCounts]) -> DayCounts:
    return {name: sum(row[name] for row in rows) for name in rows[0]}


def _name(day: date) -> str:
    return f"{day:%Y%m%d}"
