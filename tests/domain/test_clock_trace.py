"""How much time has passed since an instant of a clock that somebody may have set."""

from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.domain.clock_trace import ClockTrace

HOUR_MS = 3_600_000


def traced(*readings: tuple[int, float], keep_s: float = 60.0) -> ClockTrace:
    trace = ClockTrace(keep_s)
    for shown_ms, own_s in readings:
        trace.note(shown_ms, own_s)
    return trace


def test_without_a_step_it_is_the_time_since_the_reading_after_the_instant() -> None:
    trace = traced((10_000, 1.0), (11_000, 2.0), (12_000, 3.0))
    assert trace.elapsed_ms(10_500, 3.5) == 1_500
    assert trace.elapsed_ms(5_000, 3.5) == 2_500  # before the first reading: at least since then
    assert trace.elapsed_ms(12_500, 3.5) == 0


def test_a_step_forward_adds_nothing() -> None:
    trace = traced((10_000, 1.0), (10_000 + HOUR_MS, 2.0))
    assert trace.elapsed_ms(10_500, 2.0) == 0
    assert trace.elapsed_ms(10_000, 2.0) == 1_000


def test_what_was_noted_after_a_step_back_is_not_taken_for_what_was_before_it() -> None:
    trace = traced((10_000 + HOUR_MS, 1.0), (10_000, 2.0), (11_000, 3.0))
    assert trace.elapsed_ms(10_500, 3.0) == 0
    assert trace.elapsed_ms(9_500, 3.0) == 1_000


def test_two_readings_in_one_instant_are_no_step_back() -> None:
    trace = traced((10_000, 1.0), (12_000, 3.0), (12_000, 3.001))
    assert trace.elapsed_ms(10_000, 3.5) == 2_500
    assert trace.elapsed_ms(12_000, 3.501) == 500
    stood_still = traced((10_000, 1.0), (12_000, 3.0), (12_000, 4.0))
    assert stood_still.elapsed_ms(10_000, 4.0) == 0


def test_it_was_set_back_if_it_shows_less_than_at_the_latest_reading() -> None:
    trace = ClockTrace(keep_s=60)
    assert not trace.was_set_back(0)
    trace.note(5_000, 1.0)
    assert [trace.was_set_back(shown_ms) for shown_ms in (4_999, 5_000, 5_001)] == [True, False, False]


def test_it_remembers_as_long_as_it_was_told_to_and_nothing_after_it_was_cleared() -> None:
    trace = traced((0, 0.0), (61_000, 61.0), (70_000, 70.0))
    assert trace.elapsed_ms(0, 70.0) == 9_000
    trace.clear()
    assert trace.elapsed_ms(0, 70.0) == 0


@given(st.lists(st.tuples(st.integers(1, 5_000), st.integers(-HOUR_MS, HOUR_MS)), min_size=1, max_size=20), st.data())
def test_never_more_than_has_passed(steps: list[tuple[int, int]], data: st.DataObject) -> None:
    """Between readings some time passes, and the clock may be set. An event is noted by the clock at one reading."""
    trace, shown, own_ms, seen = ClockTrace(10_000.0), 10 * HOUR_MS, 0, []
    for passed_ms, set_by_ms in steps:
        own_ms += passed_ms
        shown += passed_ms + set_by_ms
        trace.note(shown, own_ms / 1000)
        seen.append((shown, own_ms))
    instant, happened_at = data.draw(st.sampled_from(seen))
    assert trace.elapsed_ms(instant, own_ms / 1000) <= own_ms - happened_at + 0.001
