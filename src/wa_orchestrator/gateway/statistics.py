"""What became of messages, counted by day: of one session, and of all together."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from wa_orchestrator.gateway.response_models import Day, FleetDay, FleetStatsAnswer, StatsAnswer
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts

#: A day of all sessions is one round trip with as many answers as there are sessions.
MOST_DAYS_OF_ALL: Final = 92
_COUNTED: Final = ("sent", "delivered", "read", "failed")

Counts = Mapping[str, int]


def dates(now_ms: int, zone: ZoneInfo, days: int) -> list[date]:
    """The last `days` days of a calendar, today first."""
    today = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(zone).date()
    return [today - timedelta(days=back) for back in range(days)]


async def of_session(scripts: Scripts, session_id: str, of: Sequence[date]) -> StatsAnswer:
    """Give a session's figures for these days."""
    rows = await _read(scripts, [keys.stats(session_id, _name(day)) for day in of])
    shown = [Day(date=day.isoformat(), **row) for day, row in zip(of, rows, strict=True)]
    return StatsAnswer(session_id=session_id, total=Day(date="total", **_sum(rows)), days=shown)


async def of_all(scripts: Scripts, sessions: Sequence[str], of: Sequence[date]) -> FleetStatsAnswer:
    """Give the figures of these sessions together, each by its own calendar, and of what found no session."""
    rows = [await _day_of_all(scripts, sessions, _name(day)) for day in of]
    shown = [FleetDay(date=day.isoformat(), **row) for day, row in zip(of, rows, strict=True)]
    return FleetStatsAnswer(total=FleetDay(date="total", **_sum(rows)), days=shown)


async def _day_of_all(scripts: Scripts, sessions: Sequence[str], day: str) -> Counts:
    names = [keys.stats_of_nobody(day), *(keys.stats(session_id, day) for session_id in sessions)]
    unsent, *counted = await _read(scripts, names)
    return {**_sum([unsent, *counted]), "failed_without_sender": unsent["failed"]}


async def _read(scripts: Scripts, names: Sequence[str]) -> list[Counts]:
    pipe = scripts.redis.pipeline(transaction=False)
    for name in names:
        pipe.hmget(name, _COUNTED)
    found: list[Any] = await pipe.execute()
    return [{name: int(count or 0) for name, count in zip(_COUNTED, counts, strict=True)} for counts in found]


def _sum(rows: Sequence[Counts]) -> Counts:
    return {name: sum(row[name] for row in rows) for name in rows[0]}


def _name(day: date) -> str:
    return f"{day:%Y%m%d}"
