"""How fast a phone may send: trust by age, the two built-in presets, and an operator's overrides."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from enum import StrEnum

from wa_orchestrator.errors import Refused

DAY_MS = 86_400_000
MINUTE_MS = 60_000
WARM_FROM_MS = 3 * DAY_MS
HOT_FROM_MS = 14 * DAY_MS
#: How long pauses stay doubled after a burst.
BURST_MS = 10 * MINUTE_MS
BURST_FACTOR = 2
_BURST_TIMES = 3
#: Nothing is released in the last minute of the hours: a worker types first, and WhatsApp must see it before they end.
CLOSING_MS = 60_000


class Trust(StrEnum):
    """How long an account has been linked without a break; older ones may send more."""

    COLD = "cold"
    WARM = "warm"
    HOT = "hot"


def trust(first_connected_ms: int | None, now_ms: int) -> Trust:
    """Return the trust of a session by its age since its first connection; None if it never connected."""
    age_ms = 0 if first_connected_ms is None else now_ms - first_connected_ms
    if age_ms < WARM_FROM_MS:
        return Trust.COLD
    return Trust.WARM if age_ms < HOT_FROM_MS else Trust.HOT


class BadPace(Refused):
    """Limits with which nothing could ever be sent."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__("BAD_PACE", text, path=field)


@dataclass(frozen=True, slots=True)
class Pace:
    """The limits of one phone. Equal `opens` and `closes` mean all day; `closes` before `opens` is past midnight."""

    per_day: int
    per_minute: int
    pause_base_ms: int
    pause_range_ms: int
    opens: time
    closes: time
    closing_ms: int = CLOSING_MS

    def __post_init__(self) -> None:
        for field in ("per_day", "per_minute"):
            if getattr(self, field) < 1:
                raise BadPace(field, f"{field} is at least 1. Put the session on hold if it should send nothing.")
        for field in ("pause_base_ms", "pause_range_ms"):
            if getattr(self, field) < 0:
                raise BadPace(field, f"{field} is not negative.")

    @property
    def mean_pause_ms(self) -> int:
        """The mean pause between two messages, for estimates."""
        return self.pause_base_ms + self.pause_range_ms // 2

    def mean_pause_after_ms(self, at_ms: int, burst_until_ms: int) -> int:
        """Return the mean pause after a message that leaves at `at_ms`, for estimates; it is longer in a burst."""
        return self.mean_pause_ms * burst_factor(at_ms, burst_until_ms)


class Preset(StrEnum):
    """A built-in set of limits; `PACING_PRESET` names one."""

    STANDARD = "standard"
    CONSERVATIVE = "conservative"


PRESETS: Mapping[Preset, Mapping[Trust, Pace]] = {
    Preset.STANDARD: {
        Trust.COLD: Pace(20, 5, 5_000, 3_000, time(9), time(21)),
        Trust.WARM: Pace(100, 15, 3_000, 2_000, time(8), time(22)),
        Trust.HOT: Pace(500, 30, 2_000, 2_000, time(7), time(23)),
    },
    # Pauses of 60, 30 and 10 s, each 30 % to either side.
    Preset.CONSERVATIVE: {
        Trust.COLD: Pace(10, 5, 42_000, 36_000, time(9), time(21)),
        Trust.WARM: Pace(50, 15, 21_000, 18_000, time(8), time(22)),
        Trust.HOT: Pace(200, 30, 7_000, 6_000, time(7), time(23)),
    },
}


@dataclass(frozen=True, slots=True)
class Override:
    """An operator's overrides, for one session or for a tag; what is None comes from the preset."""

    per_day: int | None = None
    per_minute: int | None = None
    pause_base_ms: int | None = None
    pause_range_ms: int | None = None
    opens: time | None = None
    closes: time | None = None

    def onto(self, preset: Pace) -> Pace:
        """Return the effective limits: these where set, else the preset's."""
        own = {name: value for name in self.__slots__ if (value := getattr(self, name)) is not None}
        return replace(preset, **own) if own else preset

    def raises_above(self, preset: Pace) -> tuple[str, ...]:
        """Return the names of the limits that these make riskier than the preset; a person must acknowledge those."""
        pace = self.onto(preset)
        riskier = {
            "per_day": pace.per_day > preset.per_day,
            "per_minute": pace.per_minute > preset.per_minute,
            "pause_base_ms": pace.pause_base_ms < preset.pause_base_ms,
            "pause_range_ms": pace.mean_pause_ms < preset.mean_pause_ms,
            "hours": not _within(pace, preset),
        }
        return tuple(name for name, is_riskier in riskier.items() if is_riskier)


def burst_factor(at_ms: int, burst_until_ms: int) -> int:
    """Return how many times as long the pause is after a message that leaves at `at_ms`."""
    return BURST_FACTOR if at_ms < burst_until_ms else 1


def draw_pause(pace: Pace, jitter: float, factor: int = 1) -> int:
    """Return the pause after one message, in ms, by a random `jitter` in [0, 1); `factor` is `burst_factor`'s."""
    return (pace.pause_base_ms + int(jitter * pace.pause_range_ms)) * factor


def is_burst(submitted_last_minute: int, pace: Pace) -> bool:
    """Whether so many messages were submitted to one session within a minute that it slows down for a while."""
    return submitted_last_minute > _BURST_TIMES * pace.per_minute


def overlap(one: tuple[time, time], other: tuple[time, time]) -> tuple[time, time] | None:
    """Return the hours that are in both, the longer part if there are two; None if there are none."""
    if other[0] == other[1]:
        return one
    if one[0] == one[1]:
        return other
    # Counted from the opening of `one`, which then is a plain interval; `other` may go past midnight once more.
    length, begins = _seconds_after(*one), _seconds_after(one[0], other[0])
    ends = begins + _seconds_after(*other)
    parts = [(begins, min(length, ends)), (0, min(length, ends - DAY_MS // 1000))]
    start, end = max(parts, key=lambda part: part[1] - part[0])
    return (_later(one[0], start), _later(one[0], end)) if end > start else None


def _later(at: time, seconds: int) -> time:
    return (datetime.combine(date.min, at) + timedelta(seconds=seconds)).time()


def _within(inner: Pace, outer: Pace) -> bool:
    """Whether the hours of `inner` are inside those of `outer`."""
    if outer.opens == outer.closes:
        return True
    if inner.opens == inner.closes:
        return False
    # Counted from the opening of `outer`, both are plain intervals.
    length = _seconds_after(outer.opens, outer.closes)
    begins = _seconds_after(outer.opens, inner.opens)
    return begins + _seconds_after(inner.opens, inner.closes) <= length


def _seconds_after(start: time, end: time) -> int:
    return (datetime.combine(date.min, end) - datetime.combine(date.min, start)).seconds  # always less than a day
