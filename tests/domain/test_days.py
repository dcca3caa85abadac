"""Whole days of sending on a virtual clock, over both days on which the clocks of three places jump.

What left is checked by the wall clock of the place, without the functions that decided it.
"""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from wa_orchestrator.domain.pacing.decision import SendNow, Situation, WaitUntil, decide
from wa_orchestrator.domain.pacing.limits import BURST_FACTOR, MINUTE_MS, PRESETS, Pace, Preset, Trust, draw_pause

JUMPS = [
    ("Asia/Jerusalem", date(2026, 3, 27)),
    ("Asia/Jerusalem", date(2026, 10, 25)),
    ("America/Sao_Paulo", date(2018, 2, 17)),
    ("America/Sao_Paulo", date(2018, 11, 4)),
    ("Europe/London", date(2026, 3, 29)),
    ("Europe/London", date(2026, 10, 25)),
]
STANDARD = PRESETS[Preset.STANDARD]
#: Slow enough that the messages of a day lie on both sides of a jump at night.
NIGHT = Pace(40, 5, 240_000, 120_000, opens=time(22), closes=time(6))
ALWAYS = Pace(200, 5, 600_000, 120_000, opens=time(0), closes=time(0))
PACES: dict[str, Pace] = {"night": NIGHT, "always": ALWAYS} | {str(trust): pace for trust, pace in STANDARD.items()}


@dataclass
class Phone:
    """A phone whose queue never ends, and the ledger of what left it."""

    pace: Pace
    zone: ZoneInfo
    now_ms: int
    left: list[int] = field(default_factory=list)
    pauses: list[int] = field(default_factory=list)

    def run(self, until_ms: int, factor: int = 1) -> None:
        silent_until_ms = 0
        while self.now_ms < until_ms:
            # A day of 25 hours is the longest that a store has to remember.
            sent = self.left[bisect_left(self.left, self.now_ms - 26 * 3_600_000) :]
            answer = decide(self.pace, Situation(self.zone, sent, silent_until_ms), self.now_ms)
            if isinstance(answer, WaitUntil):
                self.now_ms = answer.at_ms
                continue
            assert answer == SendNow()
            jitter = (len(self.left) * 0.618033988749895) % 1
            self.left.append(self.now_ms)
            self.pauses.append(draw_pause(self.pace, jitter, factor))
            silent_until_ms = self.now_ms + self.pauses[-1]
            self.now_ms += 1

    def wall_clocks(self) -> list[datetime]:
        return [datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(self.zone) for at_ms in self.left]


def instant_ms(day: date, moment: time, zone: ZoneInfo) -> int:
    return round(datetime.combine(day, moment, zone).timestamp() * 1000)


@cache
def phone_around(jump: date, zone_name: str, pace: Pace) -> Phone:
    """Run a phone from noon before the jump until noon after it."""
    zone = ZoneInfo(zone_name)
    phone = Phone(pace, zone, instant_ms(jump - timedelta(days=1), time(12), zone))
    phone.run(instant_ms(jump + timedelta(days=1), time(12), zone))
    return phone


@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize(("zone", "jump"), JUMPS)
def test_limits_hours_and_pauses_are_exact_on_the_day_on_which_the_clock_jumps(
    zone: str, jump: date, pace: str
) -> None:
    limits = PACES[pace]
    phone = phone_around(jump, zone, limits)
    clocks = phone.wall_clocks()
    per_day = Counter(clock.date() for clock in clocks)

    assert max(per_day.values()) <= limits.per_day
    assert all(is_open(limits, clock.time()) for clock in clocks)
    for (before, after), pause in zip(pairwise(phone.left), phone.pauses, strict=False):
        assert after - before >= pause
    for first, beyond in zip(phone.left, phone.left[limits.per_minute :], strict=False):
        assert beyond - first >= MINUTE_MS


@pytest.mark.parametrize("trust", Trust)
@pytest.mark.parametrize(("zone", "jump"), JUMPS)
def test_a_busy_phone_opens_on_time_uses_its_whole_day_and_wastes_no_moment(
    zone: str, jump: date, trust: Trust
) -> None:
    limits = STANDARD[trust]
    phone = phone_around(jump, zone, limits)
    today = [at_ms for at_ms, clock in zip(phone.left, phone.wall_clocks(), strict=True) if clock.date() == jump]

    assert len(today) == limits.per_day
    assert today[0] == instant_ms(jump, limits.opens, phone.zone)
    first = phone.left.index(today[0])
    for place in range(first + 1, first + len(today)):
        after_pause = phone.left[place - 1] + phone.pauses[place - 1]
        after_minute = phone.left[place - limits.per_minute] + MINUTE_MS
        assert phone.left[place] == max(after_pause, after_minute)


def test_the_night_is_worked_through_on_both_sides_of_the_jump() -> None:
    phone = phone_around(date(2026, 10, 25), "Europe/London", ALWAYS)
    folds = {clock.fold for clock in phone.wall_clocks() if clock.hour == 1 and clock.date() == date(2026, 10, 25)}
    assert folds == {0, 1}


def test_pauses_double_in_a_burst() -> None:
    zone = ZoneInfo("UTC")
    start_ms = instant_ms(date(2026, 6, 1), time(12), zone)
    calm, hurried = Phone(STANDARD[Trust.HOT], zone, start_ms), Phone(STANDARD[Trust.HOT], zone, start_ms)
    calm.run(start_ms + MINUTE_MS)
    hurried.run(start_ms + MINUTE_MS, BURST_FACTOR)
    assert hurried.pauses == [2 * pause for pause in calm.pauses[: len(hurried.pauses)]]
    assert min(after - before for before, after in pairwise(hurried.left)) >= 4_000


def is_open(pace: Pace, moment: time) -> bool:
    if pace.opens < pace.closes:
        return pace.opens <= moment < pace.closes
    return pace.opens == pace.closes or moment >= pace.opens or moment < pace.closes
