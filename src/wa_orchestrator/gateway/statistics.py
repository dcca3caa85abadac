"""What became of messages, counted by day: of one session, and of all together."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from wa_orchestrator.gateway.response_models import Day, FleetDay, FleetStatsAnswer, StatsAnswer
from wa_orchestrator.store import message_counts
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.message_counts import DayCounts

#: A day of all sessions is one round trip with as many answers as there are sessions.
MOST_DAYS_OF_ALL: Final = 92


def dates(now_ms: int, zone: ZoneInfo, days: int) -> list[date]:
    """The last `days` days of a calendar, today first."""
    today = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(zone).date()
    return [today - timedelta(days=back) for back in range(days)]


async def of_session(scripts: Scripts, session_id: str, of: Sequence[date]) -> StatsAnswer:
    """Give a session's figures for these days."""
    rows = await message_counts.by_day(scripts, session_id, [_name(day) for day in of])
    shown = [Day(date=day.isoformat(), **row) for day, row in zip(of, rows, strict=True)]
    return StatsAnswer(session_id=session_id, total=Day(date="total", **_sum(rows)), days=shown)


async def of_all(scripts: Scripts, sessions: Sequence[str], of: Sequence[date]) -> FleetStatsAnswer:
    """Give the figures of these sessions together, each by its own calendar, and of what found no session."""
    rows = [await _day_of_all(scripts, sessions, _name(day)) for day in of]
    shown = [FleetDay(date=day.isoformat(), **row) for day, row in zip(of, rows, strict=True)]
    return FleetStatsAnswer(total=FleetDay(date="total", **_sum(rows)), days=shown)


async def _day_of_all(scripts: Scripts, sessions: Sequence[str], day: str) -> DayCounts:
    unsent, counted = await message_counts.of_day(scripts, sessions, day)
    return {**_sum([unsent, *counted]), "failed_without_sender": unsent["failed"]}


def _sum(rows: Sequence[DayCounts]) -> DayCounts:
    return {name: sum(row[name] for row in rows) for name in rows[0]}


def _name(day: date) -> str:
    return f"{day:%Y%m%d}"
