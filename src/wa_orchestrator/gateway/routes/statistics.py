"""Counts of messages by day, for one session and for all: `GET /api/v1/stats`."""

from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Final
from zoneinfo import ZoneInfo

from fastapi import Query

from wa_orchestrator.context import Context
from wa_orchestrator.gateway.response_models import DayStats, SessionStats, TotalDayStats, TotalStats
from wa_orchestrator.gateway.routes.queues import SESSION_ERRORS, SessionPath
from wa_orchestrator.gateway.senders.sender_pool import SenderPool
from wa_orchestrator.messages.session_pace import zone_of
from wa_orchestrator.store.messages import message_counts
from wa_orchestrator.store.messages.message_counts import DayCounts
from wa_orchestrator.web.auth import LimitedReader
from wa_orchestrator.web.route_group import RouteGroup

#: A key that is limited to some sessions has one reply per session and day.
_MAX_DAYS_OF_ALL: Final = 92


class StatisticsRoutes(RouteGroup):
    """Routes `/api/v1/stats`."""

    def __init__(self, context: Context, pool: SenderPool) -> None:
        super().__init__(context, "/api/v1/stats", "messages")
        self._pool = pool
        self.get("")(self.get_stats)
        self.get("/{session_id}", responses=SESSION_ERRORS)(self.get_session_stats)

    async def get_stats(
        self, caller: LimitedReader, days: Annotated[int, Query(ge=1, le=_MAX_DAYS_OF_ALL)] = 30
    ) -> TotalStats:
        """Count the messages of all sessions by day, of removed ones too, and those that no session could send.

        With a key that is limited to some sessions, only their messages are counted.
        """
        now_ms = await self._scripts.now_ms()
        dates = _dates(now_ms, ZoneInfo(self._settings.timezone), days)
        reached = await self._context.session_labels.reached(caller.reach)
        rows = await self._days(reached, [_name(day) for day in dates], now_ms)
        shown = [TotalDayStats(date=day.isoformat(), **row) for day, row in zip(dates, rows, strict=True)]
        return TotalStats(total=TotalDayStats(date="total", **_sum(rows)), days=shown)

    async def get_session_stats(
        self, session_id: SessionPath, caller: LimitedReader, days: Annotated[int, Query(ge=1, le=400)] = 30
    ) -> SessionStats:
        """Count the messages of a session by day: sent, delivered, read and failed."""
        snapshot, sender = await self._pool.find(session_id, caller.reach)
        dates = _dates(snapshot.now_ms(), zone_of(self._settings, sender.session), days)
        rows = await message_counts.by_day(self._scripts, session_id, [_name(day) for day in dates])
        shown = [DayStats(date=day.isoformat(), **row) for day, row in zip(dates, rows, strict=True)]
        return SessionStats(session_id=session_id, total=DayStats(date="total", **_sum(rows)), days=shown)

    async def _days(self, reached: Collection[str] | None, days: Sequence[str], now_ms: int) -> list[DayCounts]:
        """Return the counts of the sessions that are reached (None: all), each in its own time zone.

        Messages without a session belong to nobody: only those who reach everything have them counted.
        """
        if reached is not None:
            rows = await message_counts.of_sessions(self._scripts, reached, days)
            return [{**row, "failed_without_sender": 0} for row in rows]
        return [
            {**row, "failed_without_sender": unsent["failed"] + unsent["unknown"]}
            for row, unsent in await message_counts.of_all(self._scripts, days, now_ms=now_ms)
        ]


def _dates(now_ms: int, zone: ZoneInfo, days: int) -> list[date]:
    """Return the last `days` dates in a time zone, today first."""
    today = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(zone).date()
    return [today - timedelta(days=back) for back in range(days)]


def _sum(rows: Sequence[DayCounts]) -> DayCounts:
    return {name: sum(row[name] for row in rows) for name in rows[0]}


def _name(day: date) -> str:
    return f"{day:%Y%m%d}"
