"""When backups are made, and which are kept."""

from collections.abc import Sequence
from datetime import datetime, time, timedelta, tzinfo


def scheduled_day(now: datetime, at: time) -> str:
    """Return the local day whose scheduled backup is the last that should exist. `now` is in the local zone."""
    day = now.date() if now.time() >= at else now.date() - timedelta(days=1)
    return day.isoformat()


def is_due(now: datetime, at: time, last_day: str) -> bool:
    """Whether the scheduled backup of a day is missing. One that was missed for days is made up once."""
    return last_day < scheduled_day(now, at)


def next_run(now: datetime, at: time, zone: tzinfo) -> datetime:
    """Return when the next scheduled backup is made; an hour that the clock skips begins where it ends."""
    day = now.date() if now.time() < at else now.date() + timedelta(days=1)
    return datetime.combine(day, at, tzinfo=zone)


def surplus(ids: Sequence[str], keep: int) -> list[str]:
    """Return the backups to delete, the oldest first. An id begins with its day and time, so names sort by age."""
    return sorted(ids)[: max(0, len(ids) - keep)]
