"""Limits by trust, presets and overrides of an operator."""

from dataclasses import fields, replace
from datetime import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.properties import quick
from wa_orchestrator.domain.pacing import limits
from wa_orchestrator.domain.pacing.limits import (
    BURST_FACTOR,
    DAY_MS,
    PRESETS,
    BadPace,
    Override,
    Pace,
    Preset,
    Trust,
    draw_pause,
    is_burst,
)

COLD = PRESETS[Preset.STANDARD][Trust.COLD]
times = st.builds(time, st.integers(0, 23), st.sampled_from([0, 30]))


@pytest.mark.parametrize(
    ("age_ms", "trust"),
    [
        (0, Trust.COLD),
        (3 * DAY_MS - 1, Trust.COLD),
        (3 * DAY_MS, Trust.WARM),
        (14 * DAY_MS - 1, Trust.WARM),
        (14 * DAY_MS, Trust.HOT),
    ],
)
def test_trust_comes_with_age(age_ms: int, trust: Trust) -> None:
    assert limits.trust(1_000, 1_000 + age_ms) is trust


def test_a_session_that_never_connected_is_cold() -> None:
    assert limits.trust(None, 10**13) is Trust.COLD


@pytest.mark.parametrize(
    ("preset", "trust", "per_day", "per_minute", "shortest_ms", "longest_ms", "opens", "closes"),
    [
        ("standard", "cold", 20, 5, 5_000, 8_000, 9, 21),
        ("standard", "warm", 100, 15, 3_000, 5_000, 8, 22),
        ("standard", "hot", 500, 30, 2_000, 4_000, 7, 23),
        ("conservative", "cold", 10, 5, 42_000, 78_000, 9, 21),
        ("conservative", "warm", 50, 15, 21_000, 39_000, 8, 22),
        ("conservative", "hot", 200, 30, 7_000, 13_000, 7, 23),
    ],
)
def test_the_presets_are_those_of_the_specification(
    preset: str, trust: str, per_day: int, per_minute: int, shortest_ms: int, longest_ms: int, opens: int, closes: int
) -> None:
    pace = PRESETS[Preset(preset)][Trust(trust)]
    assert (pace.per_day, pace.per_minute) == (per_day, per_minute)
    assert (pace.opens, pace.closes) == (time(opens), time(closes))
    assert draw_pause(pace, 0.0) == shortest_ms
    assert longest_ms - 1 <= draw_pause(pace, 0.999999) <= longest_ms
    assert draw_pause(pace, 0.5, BURST_FACTOR) == shortest_ms + longest_ms


@quick
@given(st.floats(0, 1, exclude_max=True), st.sampled_from([1, 2]))
def test_a_pause_is_never_shorter_than_its_base(jitter: float, factor: int) -> None:
    assert factor * 5_000 <= draw_pause(COLD, jitter, factor) <= factor * 8_000


def test_a_burst_is_more_than_three_times_the_minute() -> None:
    assert not is_burst(15, COLD)
    assert is_burst(16, COLD)


@pytest.mark.parametrize(
    ("override", "riskier"),
    [
        (Override(), ()),
        (Override(per_day=20, per_minute=5), ()),
        (Override(per_day=10, per_minute=1, pause_base_ms=9_000, opens=time(10), closes=time(20)), ()),
        (Override(per_day=21), ("per_day",)),
        (Override(per_minute=6), ("per_minute",)),
        (Override(pause_base_ms=4_999), ("pause_base_ms", "pause_range_ms")),
        (Override(pause_range_ms=0), ("pause_range_ms",)),
        (Override(opens=time(8)), ("hours",)),
        (Override(closes=time(22)), ("hours",)),
        (Override(opens=time(20), closes=time(10)), ("hours",)),
        (Override(opens=time(9), closes=time(9)), ("hours",)),
    ],
)
def test_raising_a_limit_above_the_preset_is_named(override: Override, riskier: tuple[str, ...]) -> None:
    assert override.raises_above(COLD) == riskier


def test_nothing_is_outside_hours_that_never_close() -> None:
    always = replace(COLD, opens=time(0), closes=time(0))
    assert Override(opens=time(3), closes=time(2)).raises_above(always) == ()


@quick
@given(times, times, times, times)
def test_hours_are_wider_exactly_when_some_half_hour_is_open_that_was_closed(
    opens: time, closes: time, new_opens: time, new_closes: time
) -> None:
    def open_at(pace: Pace, moment: time) -> bool:
        if pace.opens < pace.closes:
            return pace.opens <= moment < pace.closes
        return pace.opens == pace.closes or moment >= pace.opens or moment < pace.closes

    preset = replace(COLD, opens=opens, closes=closes)
    override = Override(opens=new_opens, closes=new_closes)
    moments = [time(hour, minute) for hour in range(24) for minute in (0, 30)]
    wider = any(open_at(override.onto(preset), moment) and not open_at(preset, moment) for moment in moments)
    assert (override.raises_above(preset) == ("hours",)) is wider


@quick
@given(st.builds(Override, per_day=st.none() | st.integers(1, 99), opens=st.none() | times))
def test_an_override_sets_what_it_names_and_nothing_else(override: Override) -> None:
    pace = override.onto(COLD)
    for field in fields(Pace):
        own = getattr(override, field.name, None)
        assert getattr(pace, field.name) == (getattr(COLD, field.name) if own is None else own)


@pytest.mark.parametrize(
    "override",
    [Override(per_day=0), Override(per_minute=0), Override(pause_base_ms=-1), Override(pause_range_ms=-1)],
)
def test_numbers_with_which_nothing_could_ever_be_sent_are_refused(override: Override) -> None:
    with pytest.raises(BadPace) as refusal:
        override.onto(COLD)
    assert refusal.value.code == "BAD_PACE"
