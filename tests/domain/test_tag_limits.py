"""Limits by tag: they lower, they raise only if acknowledged, and a session's own beat them."""

from dataclasses import fields
from datetime import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.properties import quick
from wa_orchestrator.domain.pacing.limits import PRESETS, Override, Pace, Preset, Trust, overlap
from wa_orchestrator.domain.pacing.tag_limits import Origin, PaceLimit, TagLimit, origins, stricter, under_tags

COLD, HOT = PRESETS[Preset.STANDARD][Trust.COLD], PRESETS[Preset.STANDARD][Trust.HOT]
times = st.builds(time, st.integers(0, 23), st.sampled_from([0, 30]))
pauses = st.tuples(st.integers(0, 90_000), st.integers(0, 90_000)) | st.just((None, None))
hours = st.tuples(times, times) | st.just((None, None))
overrides = st.builds(
    lambda day, minute, pause, open_hours: Override(day, minute, *pause, *open_hours),
    st.none() | st.integers(1, 1000),
    st.none() | st.integers(1, 60),
    pauses,
    hours,
)
presets = st.sampled_from([pace for paces in PRESETS.values() for pace in paces.values()])


@quick
@given(presets, st.lists(overrides, max_size=3))
def test_what_nobody_acknowledged_never_raises_a_limit_above_the_preset(preset: Pace, given_: list[Override]) -> None:
    pace = under_tags(preset, [TagLimit(f"tag {n}", override) for n, override in enumerate(given_)])
    as_override = Override(**{field.name: getattr(pace, field.name) for field in fields(Override)})
    assert as_override.raises_above(preset) == ()


@quick
@given(presets, overrides, overrides)
def test_the_order_of_tags_does_not_matter_for_counts_and_pauses(preset: Pace, one: Override, other: Override) -> None:
    for raises in (False, True):
        there = under_tags(preset, [TagLimit("a", one, raises), TagLimit("b", other, raises)])
        back = under_tags(preset, [TagLimit("b", other, raises), TagLimit("a", one, raises)])
        assert (there.per_day, there.per_minute) == (back.per_day, back.per_minute)
        assert (there.pause_base_ms, there.pause_range_ms) == (back.pause_base_ms, back.pause_range_ms)


@pytest.mark.parametrize(
    ("limits", "cold", "hot"),
    [
        ([], 20, 500),
        ([TagLimit("vip", Override(per_day=50))], 20, 50),  # a cold session keeps its stricter preset
        ([TagLimit("vip", Override(per_day=50), raises=True)], 50, 50),
        ([TagLimit("a", Override(per_day=50), raises=True), TagLimit("b", Override(per_day=30))], 30, 30),
        ([TagLimit("a", Override(per_day=50), raises=True), TagLimit("b", Override(40), raises=True)], 40, 40),
        ([TagLimit("a", Override(per_day=50), raises=True), TagLimit("b", Override(None, 3), raises=True)], 50, 50),
    ],
)
def test_the_strictest_of_several_tags_holds(limits: list[TagLimit], cold: int, hot: int) -> None:
    assert (under_tags(COLD, limits).per_day, under_tags(HOT, limits).per_day) == (cold, hot)


def test_each_limit_says_where_it_comes_from() -> None:
    tags = [TagLimit("vip", Override(per_day=10, per_minute=2)), TagLimit("north", Override(per_day=5))]
    found = origins(COLD, tags, Override(opens=time(10)))
    assert found == {
        PaceLimit.PER_DAY: Origin("tag", "north"),
        PaceLimit.PER_MINUTE: Origin("tag", "vip"),
        PaceLimit.PAUSE: Origin("preset"),
        PaceLimit.HOURS: Origin("own"),
    }
    # A tag that allows more than the preset, and was not acknowledged, is not where the limit comes from.
    assert origins(COLD, [TagLimit("vip", Override(per_day=50))], Override())[PaceLimit.PER_DAY] == Origin("preset")
    assert origins(COLD, tags, Override(per_day=7))[PaceLimit.PER_DAY] == Origin("own")


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ((9, 21), (8, 18), (9, 18)),
        ((9, 21), (10, 12), (10, 12)),
        ((9, 21), (21, 9), None),
        ((9, 21), (20, 10), (9, 10)),  # of two parts of one length the first
        ((9, 21), (20, 12), (9, 12)),
        ((22, 6), (23, 5), (23, 5)),
        ((22, 6), (5, 23), (22, 23)),
        ((9, 21), (7, 7), (9, 21)),
        ((7, 7), (9, 21), (9, 21)),
    ],
)
def test_hours_of_two_limits_are_those_in_both(
    one: tuple[int, int], other: tuple[int, int], both: tuple[int, int] | None
) -> None:
    found = overlap((time(one[0]), time(one[1])), (time(other[0]), time(other[1])))
    lengths = {(9, 10), (20, 21), (22, 23), (5, 6)}  # parts of one hour each: either is right
    expected = None if both is None else (time(both[0]), time(both[1]))
    assert found == expected or (both in lengths and found in {(time(a), time(b)) for a, b in lengths})


def test_hours_that_never_overlap_stay_as_the_preset_has_them() -> None:
    night = Pace(1, 1, 0, 0, time(22), time(6))
    assert (stricter(COLD, night).opens, stricter(COLD, night).closes) == (COLD.opens, COLD.closes)


def test_where_nothing_is_set_the_preset_itself_is_the_answer() -> None:
    assert under_tags(COLD, ()) is COLD
    assert Override().onto(COLD) is COLD
