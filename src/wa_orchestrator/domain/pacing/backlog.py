"""The backlog of a phone in three parts: now, today, later. Counts, lists and cancellation know all of them."""

from dataclasses import dataclass
from zoneinfo import ZoneInfo

from wa_orchestrator.domain.pacing.hours import day_bounds_ms, release_bounds_ms
from wa_orchestrator.domain.pacing.limits import Pace


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


def split_backlog(pace: Pace, zone: ZoneInfo, counts: QueueCounts, now_ms: int) -> Backlog:
    """Split what waits for a phone by when it can leave at the earliest.

    Beyond the daily limit, and after the hours, messages are for a later day; so are those of a reach-out lock.
    Holds and a session that is offline change nothing: they may end at any moment.
    """
    opens_ms = release_bounds_ms(pace, now_ms, zone)[0]
    room = max(0, pace.per_day - counts.sent_today) if opens_ms < day_bounds_ms(now_ms, zone)[1] else 0
    queued = min(counts.queued, room)
    scheduled = min(counts.scheduled_today, room - queued)
    later = counts.queued + counts.set_aside + counts.scheduled - queued - scheduled
    return Backlog(queued, scheduled, later) if opens_ms <= now_ms else Backlog(0, queued + scheduled, later)
