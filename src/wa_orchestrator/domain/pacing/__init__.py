"""When the next message of a phone may leave: every limit at once, as one answer that names its reason."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

from wa_orchestrator.domain.pacing.hours import day_bounds_ms, hours_bounds_ms, release_bounds_ms
from wa_orchestrator.domain.pacing.limits import (
    BURST_FACTOR,
    BURST_MS,
    DAY_MS,
    HOT_FROM_MS,
    MINUTE_MS,
    PRESETS,
    WARM_FROM_MS,
    BadPace,
    Override,
    Pace,
    Preset,
    Trust,
    burst_factor,
    draw_pause,
    is_burst,
    trust,
)
from wa_orchestrator.domain.pacing.wait_reasons import Because

__all__ = [
    "BURST_FACTOR",
    "BURST_MS",
    "DAY_MS",
    "HOT_FROM_MS",
    "MINUTE_MS",
    "PRESETS",
    "WARM_FROM_MS",
    "BadPace",
    "Because",
    "Eta",
    "Hold",
    "Override",
    "Pace",
    "Preset",
    "ReachoutLock",
    "SendNow",
    "Situation",
    "Trust",
    "WaitFor",
    "WaitUntil",
    "burst_factor",
    "day_bounds_ms",
    "decide",
    "draw_pause",
    "eta",
    "hours_bounds_ms",
    "is_burst",
    "release_bounds_ms",
    "trust",
]


@dataclass(frozen=True, slots=True)
class Hold:
    """A pause by an operator (`HELD`) or after a ban signal (`BANNED_HOLD`); without an end it lasts until lifted."""

    because: Because = Because.HELD
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ReachoutLock:
    """WhatsApp's lock on writing to new contacts; without an end it lasts until WhatsApp says otherwise."""

    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Situation:
    """What is known of a phone and of its next message at the moment of the decision."""

    zone: ZoneInfo
    sent: Sequence[int] = ()
    """When this phone's messages of today and of the last minute left, in ascending order."""
    silent_until_ms: int = 0
    """The end of the pause that was drawn after the last one."""
    burst_until_ms: int = 0
    """Until then pauses are doubled."""
    holds: tuple[Hold, ...] = ()
    online: bool = True
    lock: ReachoutLock | None = None
    contact_is_new: bool = False
    scheduled_for_ms: int = 0
    retry_not_before_ms: int = 0


@dataclass(frozen=True, slots=True)
class SendNow:
    """Nothing stands in the way."""


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """At `at_ms`, and not before, it may leave; if nothing else changes it then does."""

    at_ms: int
    because: Because


@dataclass(frozen=True, slots=True)
class WaitFor:
    """Something without a known end stands in the way."""

    because: Because


@dataclass(frozen=True, slots=True)
class Eta:
    """When a message will leave, as far as anyone can know; `None` when that depends on somebody's act."""

    at_ms: int | None
    because: Because


def decide(pace: Pace, situation: Situation, now_ms: int) -> SendNow | WaitUntil | WaitFor:
    """Decide whether the next message may leave at `now_ms`. Where several limits hold, the one that ends last is the
    answer, and it is stable: at that instant the answer is `SendNow` if nothing else has changed.
    """
    endless = _endless(situation)
    if endless is not None:
        return WaitFor(endless)
    at_ms, because = _settle(_Ledger(pace, situation.zone, situation.sent), _waits(situation), now_ms)
    return WaitUntil(at_ms, because) if at_ms > now_ms else SendNow()


def eta(pace: Pace, situation: Situation, position: int, now_ms: int, service_ms: int = 0) -> Eta:
    """Estimate when the message at `position` of the queue leaves (1 is the next one), by the rules of `decide`.

    Those before it are taken to be ordinary ones that leave as soon as they may, each `service_ms` plus a mean pause
    after the one before; the message's own schedule, backoff and lock count for itself only.
    """
    endless = _endless(situation)
    if endless is not None:
        return Eta(None, endless)
    sent = list(situation.sent)
    ledger = _Ledger(pace, situation.zone, sent)
    phone_waits = _waits(replace(situation, lock=None, scheduled_for_ms=0, retry_not_before_ms=0))
    earliest_ms, cause = now_ms, Because.NOTHING
    for _ in range(position - 1):
        left_ms, because = _settle(ledger, phone_waits, earliest_ms)
        cause = because if because in _CALENDAR else cause
        insort(sent, left_ms)
        earliest_ms = left_ms + service_ms + pace.mean_pause_after_ms(left_ms, situation.burst_until_ms)
    at_ms, because = _settle(ledger, _waits(situation), earliest_ms)
    if position > 1 and because in _PASSING:
        because = cause if cause in _CALENDAR else Because.BEHIND_OTHERS
    return Eta(at_ms, because)


#: Waits that an estimate names although others come first: a person plans by them.
_CALENDAR = frozenset({Because.DAY_IS_FULL, Because.OUTSIDE_HOURS})
#: Waits that are nothing but the ordinary way of a queue.
_PASSING = frozenset({Because.NOTHING, Because.PAUSE, Because.MINUTE_IS_FULL})


def _endless(situation: Situation) -> Because | None:
    """Name what stands in the way without an end, the gravest first."""
    endless = {hold.because for hold in situation.holds if hold.until_ms is None}
    if not situation.online:
        endless.add(Because.SESSION_OFFLINE)
    if situation.contact_is_new and situation.lock is not None and situation.lock.until_ms is None:
        endless.add(Because.REACHOUT_LOCKED)
    return min(endless, key=_GRAVITY.index, default=None)


_GRAVITY = (Because.BANNED_HOLD, Because.HELD, Because.SESSION_OFFLINE, Because.REACHOUT_LOCKED)


def _waits(situation: Situation) -> list[WaitUntil]:
    """List the waits that end at an instant which is already known."""
    waits = [
        WaitUntil(situation.silent_until_ms, Because.PAUSE),
        WaitUntil(situation.retry_not_before_ms, Because.BACKOFF),
        WaitUntil(situation.scheduled_for_ms, Because.SCHEDULED),
    ]
    waits += [WaitUntil(hold.until_ms, hold.because) for hold in situation.holds if hold.until_ms is not None]
    if situation.contact_is_new and situation.lock is not None and situation.lock.until_ms is not None:
        waits.append(WaitUntil(situation.lock.until_ms, Because.REACHOUT_LOCKED))
    return waits


def _settle(ledger: "_Ledger", waits: Sequence[WaitUntil], from_ms: int) -> tuple[int, Because]:
    """Find the first instant from `from_ms` on at which nothing stands in the way, and what ended last before it."""
    latest = max(waits, key=lambda wait: wait.at_ms)
    at_ms, because = from_ms, Because.NOTHING
    if latest.at_ms > at_ms:
        at_ms, because = latest.at_ms, latest.because
    while (found := next(ledger.waits(at_ms), None)) is not None:
        at_ms, because = found.at_ms, found.because
    return at_ms, because


@dataclass(slots=True)
class _Ledger:
    """What left when, with the day and the hours last looked at: thousands of looks fall into the same few."""

    pace: Pace
    zone: ZoneInfo
    sent: Sequence[int]
    day: tuple[int, int] = (0, 0)
    hours: tuple[int, int] = (0, 0)

    def waits(self, at_ms: int) -> Iterator[WaitUntil]:
        """Give what stands in the way at `at_ms`, the one that counts most first."""
        if not self.day[0] <= at_ms < self.day[1]:
            self.day = day_bounds_ms(at_ms, self.zone)
        if bisect_left(self.sent, self.day[1]) - bisect_left(self.sent, self.day[0]) >= self.pace.per_day:
            # Named for the day although the hours may end later: that is what a person can understand.
            yield WaitUntil(self._open_ms(self.day[1]), Because.DAY_IS_FULL)
        if self._open_ms(at_ms) > at_ms:
            yield WaitUntil(self._open_ms(at_ms), Because.OUTSIDE_HOURS)
        if len(self.sent) >= self.pace.per_minute:
            minute_ends_ms = self.sent[-self.pace.per_minute] + MINUTE_MS
            if minute_ends_ms > at_ms:
                yield WaitUntil(minute_ends_ms, Because.MINUTE_IS_FULL)

    def _open_ms(self, at_ms: int) -> int:
        if not self.hours[0] <= at_ms < self.hours[1]:
            self.hours = release_bounds_ms(self.pace, at_ms, self.zone)
        return max(at_ms, self.hours[0])
