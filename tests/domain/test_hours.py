"""Days and hours are right on the days on which the clock jumps."""

from dataclasses import replace
from datetime import UTC, datetime, time
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.properties import quick
from wa_orchestrator.domain.pacing.hours import day_bounds_ms, hours_bounds_ms
from wa_orchestrator.domain.pacing.limits import PRESETS, Pace, Preset, Trust

HOUR_MS = 3_600_000
BASE = PRESETS[Preset.STANDARD][Trust.COLD]


def at(text: str, zone: str, fold: int = 0) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp() * 1000)


def hours(opens: str, closes: str) -> Pace:
    return replace(BASE, opens=time.fromisoformat(opens), closes=time.fromisoformat(closes))


@pytest.mark.parametrize(
    ("zone", "noon", "length_h"),
    [
        ("Asia/Jerusalem", "2026-01-10T12:00", 24),
        ("Asia/Jerusalem", "2026-03-27T12:00", 23),
        ("Asia/Jerusalem", "2026-10-25T12:00", 25),
        ("Europe/London", "2026-03-29T12:00", 23),
        ("Europe/London", "2026-10-25T12:00", 25),
        ("America/Sao_Paulo", "2018-11-04T12:00", 23),
        ("America/Sao_Paulo", "2018-02-17T12:00", 25),
        ("America/Havana", "2026-11-01T12:00", 25),
        ("Asia/Kathmandu", "2026-06-01T12:00", 24),
    ],
)
def test_a_day_has_as_many_hours_as_the_clock_gives_it(zone: str, noon: str, length_h: int) -> None:
    now_ms = at(noon, zone)
    start, end = day_bounds_ms(now_ms, ZoneInfo(zone))
    assert end - start == length_h * HOUR_MS
    assert start <= now_ms < end


def test_a_date_that_a_country_skipped_is_not_a_day() -> None:
    apia = ZoneInfo("Pacific/Apia")
    thursday = day_bounds_ms(at("2011-12-29T12:00", "Pacific/Apia"), apia)
    saturday = day_bounds_ms(at("2011-12-31T12:00", "Pacific/Apia"), apia)
    assert thursday[1] == saturday[0]
    assert hours_bounds_ms(BASE, at("2011-12-29T22:00", "Pacific/Apia"), apia) == (
        at("2011-12-31T09:00", "Pacific/Apia"),
        at("2011-12-31T21:00", "Pacific/Apia"),
    )


@pytest.mark.parametrize("minute", [0, 1])
def test_a_clock_that_goes_back_over_midnight_still_gives_days_that_follow_one_another(minute: int) -> None:
    # In St. John's the clock went from 00:01 back to 23:01 of the day before.
    zone = ZoneInfo("America/St_Johns")
    now_ms = at("2010-11-07T00:00", "America/St_Johns") + minute * 60_000
    start, end = day_bounds_ms(now_ms, zone)
    assert start <= now_ms < end
    assert day_bounds_ms(end, zone)[0] == end
    assert day_bounds_ms(start - 1, zone)[1] == start


@pytest.mark.parametrize(
    ("opens", "closes", "now", "opened", "closed"),
    [
        ("09:00", "21:00", "2026-01-10T08:59", "2026-01-10T09:00", "2026-01-10T21:00"),
        ("09:00", "21:00", "2026-01-10T09:00", "2026-01-10T09:00", "2026-01-10T21:00"),
        ("09:00", "21:00", "2026-01-10T20:59", "2026-01-10T09:00", "2026-01-10T21:00"),
        ("09:00", "21:00", "2026-01-10T21:00", "2026-01-11T09:00", "2026-01-11T21:00"),
        ("22:00", "06:00", "2026-01-10T02:00", "2026-01-09T22:00", "2026-01-10T06:00"),
        ("22:00", "06:00", "2026-01-10T06:00", "2026-01-10T22:00", "2026-01-11T06:00"),
        ("20:00", "00:00", "2026-01-10T23:00", "2026-01-10T20:00", "2026-01-11T00:00"),
        ("00:00", "00:00", "2026-01-10T23:00", "2026-01-10T00:00", "2026-01-11T00:00"),
        ("13:00", "13:00", "2026-01-10T02:00", "2026-01-10T00:00", "2026-01-11T00:00"),
    ],
)
def test_the_window_contains_now_or_is_the_next_one(
    opens: str, closes: str, now: str, opened: str, closed: str
) -> None:
    zone = "Asia/Jerusalem"
    window = hours_bounds_ms(hours(opens, closes), at(now, zone), ZoneInfo(zone))
    assert window == (at(opened, zone), at(closed, zone))


def test_an_opening_hour_that_the_clock_skips_is_the_moment_of_the_skip() -> None:
    # London, 29 March 2026: 01:00 becomes 02:00.
    zone = ZoneInfo("Europe/London")
    skip = at("2026-03-29T02:00", "Europe/London")
    assert hours_bounds_ms(hours("01:30", "05:00"), skip - 2 * HOUR_MS, zone) == (
        skip,
        at("2026-03-29T05:00", "Europe/London"),
    )


def test_hours_that_the_clock_skips_wholly_are_left_out_for_that_day() -> None:
    zone = "Europe/London"
    window = hours_bounds_ms(hours("01:10", "01:50"), at("2026-03-29T00:30", zone), ZoneInfo(zone))
    assert window == (at("2026-03-30T01:10", zone), at("2026-03-30T01:50", zone))


def test_an_hour_that_happens_twice_opens_the_second_time_and_closes_the_first() -> None:
    # London, 25 October 2026: 02:00 becomes 01:00.
    zone, midnight = ZoneInfo("Europe/London"), at("2026-10-25T00:00", "Europe/London")
    assert hours_bounds_ms(hours("01:30", "05:00"), midnight, zone)[0] == at(
        "2026-10-25T01:30", "Europe/London", fold=1
    )
    assert hours_bounds_ms(hours("00:00", "01:30"), midnight, zone)[1] == at(
        "2026-10-25T01:30", "Europe/London", fold=0
    )
    assert hours_bounds_ms(hours("01:15", "01:45"), midnight, zone) == (
        at("2026-10-25T01:15", "Europe/London", fold=1),
        at("2026-10-25T01:45", "Europe/London", fold=1),
    )


zones = st.sampled_from(
    [
        ZoneInfo(name)
        for name in ("Asia/Jerusalem", "America/Sao_Paulo", "Europe/London", "America/Havana", "Pacific/Apia", "UTC")
    ]
)
instants = st.integers(at("2009-01-01T00:00", "UTC"), at("2030-01-01T00:00", "UTC"))
times = st.builds(time, st.integers(0, 23), st.sampled_from([0, 15, 45]))


@quick
@given(zones, instants, times, times, st.floats(0, 1, exclude_max=True))
def test_no_instant_of_a_window_has_a_wall_clock_outside_the_hours(
    zone: ZoneInfo, now_ms: int, opens: time, closes: time, part: float
) -> None:
    start, end = hours_bounds_ms(replace(BASE, opens=opens, closes=closes), now_ms, zone)
    assert start < end
    assert now_ms < end
    moment = datetime.fromtimestamp((start + int(part * (end - start))) / 1000, UTC).astimezone(zone).time()
    if opens < closes:
        assert opens <= moment < closes
    elif opens > closes:
        assert moment >= opens or moment < closes


@quick
@given(zones, instants)
def test_days_follow_one_another_without_gap_or_overlap(zone: ZoneInfo, now_ms: int) -> None:
    start, end = day_bounds_ms(now_ms, zone)
    assert start <= now_ms < end
    assert day_bounds_ms(end, zone)[0] == end
    assert day_bounds_ms(start - 1, zone)[1] == start
