"""The backlog of a phone in three parts: now, today, later. Counts, lists and cancellation know all of them."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo

from wa_orchestrator.domain.pacing.hours import day_bounds_ms, release_bounds_ms
from wa_orchestrator.domain.pacing.limits import Pace

#: A queue that takes more days after today than this needs a person.
MAX_DAYS: Final = 1


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """How many messages of a phone wait where, and how many it sent today."""

    queued: int = 0
    """In its queue, or on the way there."""
    set_aside: int = 0
    """Held back by a reach-out lock."""
    scheduled: int = 0
    """Scheduled or deferred, for today or for another day."""
    scheduled_today: int = 0
    sent_today: int = 0


@dataclass(frozen=True, slots=True)
class Backlog:
    """How many messages wait: those that leave one after the other now, later today, and on another day."""

    now: int = 0
    today: int = 0
    later: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.now + self.today + self.later

    def days_after_today(self, pace: Pace) -> int:
        """Return how many days after today it takes at the daily limit."""
        return -(-self.later // pace.per_day)


class Part(StrEnum):
    """A part of what waits; its value is the field of `Backlog` that counts it."""

    NOW = "now"
    TODAY = "today"
    LATER = "later"


@dataclass(frozen=True, slots=True)
class LeavingToday:
    """How many of a phone's queue, and of its messages that are not due yet, can leave today; the first of each do."""

    queued: int
    scheduled: int
    is_open: bool
    """Whether its hours have begun."""

    def part(self, *, queue_rank: int | None, later_rank: int | None) -> Part:
        """Return the part of a message by its rank in the queue, or among those not due yet (None: not there)."""
        if queue_rank is not None and queue_rank < self.queued:
            return Part.NOW if self.is_open else Part.TODAY
        return Part.TODAY if later_rank is not None and later_rank < self.scheduled else Part.LATER


def leaving_today(pace: Pace, zone: ZoneInfo, counts: QueueCounts, now_ms: int) -> LeavingToday:
    """Return how much of what waits for a phone can leave today.

    Beyond the daily limit, and after the hours, messages are for a later day; so are those of a reach-out lock.
    Holds and a session that is offline change nothing: they may end at any moment.
    """
    opens_ms = release_bounds_ms(pace, now_ms, zone)[0]
    room = max(0, pace.per_day - counts.sent_today) if opens_ms < day_bounds_ms(now_ms, zone)[1] else 0
    queued = min(counts.queued, room)
    return LeavingToday(queued, min(counts.scheduled_today, room - queued), opens_ms <= now_ms)


def split_backlog(pace: Pace, zone: ZoneInfo, counts: QueueCounts, now_ms: int) -> Backlog:
    """Split what waits for a phone by when it can leave at the earliest."""
    leaving = leaving_today(pace, zone, counts, now_ms)
    queued, scheduled = leaving.queued, leaving.scheduled
    later = counts.queued + counts.set_aside + counts.scheduled - queued - scheduled
    return Backlog(queued, scheduled, later) if leaving.is_open else Backlog(0, queued + scheduled, later)
