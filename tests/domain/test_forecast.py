"""The forecast of a queue gives the answers of `decide` for every message, with few decisions."""

from dataclasses import replace
from datetime import time
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.properties import quick
from tests.domain.test_pacing import COLD, FREE, HELD, NOON, TOMORROW, at, paces, situations
from wa_orchestrator.domain.pacing import forecast
from wa_orchestrator.domain.pacing.decision import Situation, WaitFor, WaitUntil, decide
from wa_orchestrator.domain.pacing.forecast import Eta, Forecast, Turn
from wa_orchestrator.domain.pacing.limits import BURST_MS, PRESETS, Pace, Preset, Trust
from wa_orchestrator.domain.pacing.wait_reasons import WaitReason


def decided_one_by_one(pace: Pace, situation: Situation, now_ms: int, service_ms: int, count: int) -> list[int]:
    """When each of `count` messages leaves if `decide` is asked for every single one."""
    left = list(situation.sent)
    for _ in range(count):
        answer = decide(pace, situation, now_ms)
        assert not isinstance(answer, WaitFor)
        left.append(answer.at_ms if isinstance(answer, WaitUntil) else now_ms)
        now_ms = left[-1] + service_ms + pace.mean_pause_after_ms(left[-1], situation.burst_until_ms)
        situation = replace(situation, sent=tuple(left), silent_until_ms=0)
    return left[len(left) - count :]


@quick
@given(paces, situations(), st.integers(0, 70_000))
def test_a_forecast_says_when_each_message_would_leave_if_it_were_decided_one_by_one(
    pace: Pace, case: tuple[Situation, int], service_ms: int
) -> None:
    situation, now_ms = case
    forecast = Forecast(pace, situation, now_ms, service_ms=service_ms)
    etas = [forecast.eta(ahead).at_ms for ahead in range(20)]
    assert etas == decided_one_by_one(pace, situation, now_ms, service_ms, 20)


@quick
@given(paces, situations())
def test_the_eta_of_the_first_message_is_what_decide_answers(pace: Pace, case: tuple[Situation, int]) -> None:
    situation, now_ms = case
    first = Forecast(pace, situation, now_ms).eta(0)
    answer = decide(pace, situation, now_ms)
    if isinstance(answer, WaitUntil):
        assert first == Eta(answer.at_ms, answer.because)
    else:
        assert first == Eta(now_ms, WaitReason.NOTHING)


@pytest.mark.parametrize(
    ("ahead", "answer"),
    [
        (0, Eta(NOON, WaitReason.NOTHING)),
        (1, Eta(NOON + 8_500, WaitReason.BEHIND_OTHERS)),
        (5, Eta(NOON + 60_000, WaitReason.BEHIND_OTHERS)),
        (19, Eta(NOON + 3 * 60_000 + 4 * 8_500, WaitReason.BEHIND_OTHERS)),
        (20, Eta(TOMORROW, WaitReason.DAY_IS_FULL)),
        (21, Eta(TOMORROW + 8_500, WaitReason.DAY_IS_FULL)),
        (40, Eta(at("2026-06-03T09:00"), WaitReason.DAY_IS_FULL)),
    ],
)
def test_an_eta_follows_the_pace_the_minute_and_the_day(ahead: int, answer: Eta) -> None:
    assert Forecast(COLD, FREE, NOON, service_ms=2_000).eta(ahead) == answer


def test_an_eta_at_night_is_named_for_the_hours() -> None:
    assert Forecast(COLD, FREE, at("2026-06-01T22:00")).eta(2).because is WaitReason.OUTSIDE_HOURS


def test_where_the_night_is_open_a_queue_goes_on_over_midnight() -> None:
    night = replace(COLD, opens=time(9), closes=time(9))
    late = Forecast(night, FREE, at("2026-06-01T23:59:58"))
    assert late.eta(1) == Eta(at("2026-06-01T23:59:58") + COLD.mean_pause_ms, WaitReason.BEHIND_OTHERS)


def test_a_message_in_flight_counts_among_those_ahead_and_names_the_wait() -> None:
    busy = Forecast(COLD, replace(FREE, silent_until_ms=NOON + 7_000), NOON, in_flight=True)
    assert busy.eta(1) == busy.eta(0) == Eta(NOON + 7_000, WaitReason.IN_FLIGHT)
    assert busy.eta(2) == Eta(NOON + 7_000 + COLD.mean_pause_ms, WaitReason.BEHIND_OTHERS)


def test_a_message_that_should_have_left_since_the_forecast_leaves_now() -> None:
    assert Forecast(COLD, FREE, NOON).eta(0, NOON + 3_000) == Eta(NOON + 3_000, WaitReason.NOTHING)


def test_without_an_end_in_sight_there_is_no_eta() -> None:
    held = Forecast(COLD, replace(FREE, waits=(HELD,)), NOON)
    assert held.eta(3) == held.eta_after(WaitUntil(TOMORROW, WaitReason.SCHEDULED)) == Eta(None, WaitReason.HELD)


@pytest.mark.parametrize(
    ("wait", "answer"),
    [
        (WaitUntil(NOON + 10_000, WaitReason.SCHEDULED), Eta(NOON + 10_000, WaitReason.SCHEDULED)),
        (WaitUntil(NOON - 1, WaitReason.SCHEDULED), Eta(NOON, WaitReason.NOTHING)),
        (WaitUntil(at("2026-06-01T22:00"), WaitReason.SCHEDULED), Eta(TOMORROW, WaitReason.OUTSIDE_HOURS)),
        (WaitFor(WaitReason.REACHOUT_LOCKED), Eta(None, WaitReason.REACHOUT_LOCKED)),
    ],
)
def test_a_message_with_a_wait_of_its_own_leaves_after_it_whatever_is_queued(
    wait: WaitUntil | WaitFor, answer: Eta
) -> None:
    assert Forecast(COLD, FREE, NOON).eta_after(wait) == answer


def test_a_burst_lengthens_the_pauses_of_its_ten_minutes_and_no_more() -> None:
    pace = replace(COLD, per_minute=1000, per_day=1000)
    burst = Forecast(pace, replace(FREE, burst_until_ms=NOON + BURST_MS), NOON)
    doubled, mean_ms = -(-BURST_MS // (2 * COLD.mean_pause_ms)), COLD.mean_pause_ms
    assert burst.eta(10).at_ms == NOON + 10 * 2 * mean_ms
    assert burst.eta(300).at_ms == NOON + (doubled * 2 + 300 - doubled) * mean_ms


def test_a_queue_of_a_thousand_is_estimated_with_few_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    decisions: list[int] = []

    def counted(pace: Pace, situation: Situation, now_ms: int) -> object:
        decisions.append(now_ms)
        return decide(pace, situation, now_ms)

    monkeypatch.setattr(forecast, "decide", counted)
    hot = PRESETS[Preset.STANDARD][Trust.HOT]
    assert Forecast(hot, Situation(ZoneInfo("UTC")), NOON).eta(999).because is WaitReason.DAY_IS_FULL
    assert len(decisions) <= 4


@pytest.mark.parametrize(
    ("turn", "ahead", "answer"),
    [
        (Turn(NOON + 10_000, 0, 0, NOON + 10_000), 0, Eta(NOON + 10_000, WaitReason.SCHEDULED)),
        (Turn(TOMORROW, 20, 20, TOMORROW), 0, Eta(at("2026-06-03T09:00"), WaitReason.DAY_IS_FULL)),
        (Turn(TOMORROW, 30, 5, NOON + 60_000), 0, Eta(TOMORROW + 10 * 8_500, WaitReason.DAY_IS_FULL)),
    ],
)
def test_a_message_with_its_own_instant_leaves_then_or_after_all_that_come_before_it(
    turn: Turn, ahead: int, answer: Eta
) -> None:
    found = Forecast(COLD, FREE, NOON, service_ms=2_000).eta_of_turn(turn, ahead)
    assert found.at_ms is not None
    assert answer.at_ms is not None
    assert found.at_ms >= answer.at_ms
    assert found.at_ms - answer.at_ms < 120_000  # the minute's limit
    assert found.at_ms >= turn.due_ms


def test_a_deferred_message_says_that_the_day_was_full() -> None:
    assert Eta(TOMORROW, WaitReason.SCHEDULED).deferred() == Eta(TOMORROW, WaitReason.DAY_IS_FULL)
    assert Eta(None, WaitReason.HELD).deferred() == Eta(None, WaitReason.HELD)
