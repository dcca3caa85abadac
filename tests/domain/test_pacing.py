"""One answer to when a phone may speak next: the limit that ends last, and it stays true."""

from dataclasses import replace
from datetime import datetime, time
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.properties import quick
from wa_orchestrator.domain import pacing
from wa_orchestrator.domain.pacing import (
    MINUTE_MS,
    PRESETS,
    Because,
    Eta,
    Hold,
    Pace,
    Preset,
    ReachoutLock,
    SendNow,
    Situation,
    Trust,
    WaitFor,
    WaitUntil,
    decide,
    eta,
)

ZONE = ZoneInfo("Asia/Jerusalem")
COLD = PRESETS[Preset.STANDARD][Trust.COLD]


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=ZONE).timestamp() * 1000)


NOON = at("2026-06-01T12:00")
TOMORROW = at("2026-06-02T09:00")
FREE = Situation(ZONE)
FULL = Situation(ZONE, sent=[at("2026-06-01T09:00") + n * MINUTE_MS for n in range(20)])


@pytest.mark.parametrize(
    ("situation", "now_ms", "answer"),
    [
        (FREE, NOON, SendNow()),
        (FREE, at("2026-06-01T08:59"), WaitUntil(at("2026-06-01T09:00"), Because.OUTSIDE_HOURS)),
        (FREE, at("2026-06-01T21:00"), WaitUntil(TOMORROW, Because.OUTSIDE_HOURS)),
        (FREE, at("2026-06-01T20:59"), WaitUntil(TOMORROW, Because.OUTSIDE_HOURS)),  # it would arrive too late
        (FREE, at("2026-06-01T20:59") - 1, SendNow()),
        (replace(FREE, silent_until_ms=NOON + 7), NOON, WaitUntil(NOON + 7, Because.PAUSE)),
        (replace(FREE, silent_until_ms=NOON), NOON, SendNow()),
        (
            replace(FREE, silent_until_ms=at("2026-06-01T21:01")),
            at("2026-06-01T20:59"),
            WaitUntil(TOMORROW, Because.OUTSIDE_HOURS),
        ),
        (
            replace(FREE, sent=[NOON - 50_000 + n for n in range(5)]),
            NOON,
            WaitUntil(NOON + 10_000, Because.MINUTE_IS_FULL),
        ),
        (replace(FREE, sent=[NOON - 60_000 + n for n in range(5)]), NOON, SendNow()),
        (replace(FREE, sent=[NOON - 50_000 + n for n in range(4)]), NOON, SendNow()),
        (FULL, NOON, WaitUntil(TOMORROW, Because.DAY_IS_FULL)),
        (FULL, at("2026-06-01T22:00"), WaitUntil(TOMORROW, Because.DAY_IS_FULL)),
        (replace(FULL, sent=FULL.sent[1:]), NOON, SendNow()),
        (FULL, TOMORROW, SendNow()),
        (replace(FULL, scheduled_for_ms=TOMORROW + 1), NOON, WaitUntil(TOMORROW + 1, Because.SCHEDULED)),
        (replace(FREE, retry_not_before_ms=NOON + 9), NOON, WaitUntil(NOON + 9, Because.BACKOFF)),
        (replace(FREE, holds=(Hold(),)), NOON, WaitFor(Because.HELD)),
        (replace(FREE, holds=(Hold(until_ms=NOON + 3),)), NOON, WaitUntil(NOON + 3, Because.HELD)),
        (replace(FREE, holds=(Hold(), Hold(Because.BANNED_HOLD))), NOON, WaitFor(Because.BANNED_HOLD)),
        (replace(FREE, online=False), NOON, WaitFor(Because.SESSION_OFFLINE)),
        (replace(FREE, online=False, holds=(Hold(),)), NOON, WaitFor(Because.HELD)),
        (replace(FREE, lock=ReachoutLock()), NOON, SendNow()),
        (replace(FREE, lock=ReachoutLock(NOON + 5)), NOON, SendNow()),
        (replace(FREE, lock=ReachoutLock(), contact_is_new=True), NOON, WaitFor(Because.REACHOUT_LOCKED)),
        (replace(FREE, contact_is_new=True), NOON, SendNow()),
        (
            replace(FREE, lock=ReachoutLock(NOON + 5), contact_is_new=True),
            NOON,
            WaitUntil(NOON + 5, Because.REACHOUT_LOCKED),
        ),
    ],
)
def test_the_limit_that_ends_last_is_the_answer(
    situation: Situation, now_ms: int, answer: SendNow | WaitUntil | WaitFor
) -> None:
    assert decide(COLD, situation, now_ms) == answer


def test_a_day_that_is_full_ends_at_midnight_where_the_night_is_open() -> None:
    night = replace(COLD, opens=time(22), closes=time(6), per_day=1)
    late = Situation(ZONE, sent=[at("2026-06-01T22:30")])
    assert decide(night, late, at("2026-06-01T23:00")) == WaitUntil(at("2026-06-02T00:00"), Because.DAY_IS_FULL)


@pytest.mark.parametrize(("closes", "last_call"), [("09:05", "09:04:30"), ("09:30", "09:29"), ("09:00", None)])
def test_hours_of_a_few_minutes_lose_a_tenth_at_their_end_and_endless_ones_nothing(
    closes: str, last_call: str | None
) -> None:
    pace = replace(COLD, closes=time.fromisoformat(closes))
    opened, until = pacing.release_bounds_ms(pace, at("2026-06-01T09:01"), ZONE)
    assert until == (at("2026-06-02T00:00") if last_call is None else at(f"2026-06-01T{last_call}"))
    assert opened == at("2026-06-01T00:00" if last_call is None else "2026-06-01T09:00")


zones = st.sampled_from([ZONE, ZoneInfo("America/Sao_Paulo"), ZoneInfo("Europe/London")])
# Around the days on which those clocks jump, so that the jumps are met often.
starts = st.sampled_from(
    [at("2018-02-17T00:00"), at("2018-11-03T12:00"), at("2026-03-26T12:00"), at("2026-10-24T12:00")]
)
times = st.builds(time, st.integers(0, 23), st.sampled_from([0, 30]))
paces = st.builds(
    Pace,
    per_day=st.integers(1, 6),
    per_minute=st.integers(1, 4),
    pause_base_ms=st.integers(0, 40_000),
    pause_range_ms=st.integers(0, 10_000),
    opens=times,
    closes=times,
)


@st.composite
def situations(draw: st.DrawFn) -> tuple[Situation, int]:
    now_ms = draw(starts) + draw(st.integers(0, 2 * 86_400_000))
    near = st.one_of(st.just(0), st.integers(-100_000, 100_000).map(lambda ms: now_ms + ms))
    sent = sorted(
        now_ms - ago for ago in draw(st.lists(st.integers(0, 120_000) | st.integers(0, 86_400_000), max_size=8))
    )
    return Situation(
        draw(zones),
        sent=sent,
        silent_until_ms=draw(near),
        holds=tuple(Hold(until_ms=until) for until in draw(st.lists(near, max_size=2))),
        lock=draw(st.none() | st.builds(ReachoutLock, near)),
        contact_is_new=draw(st.booleans()),
        scheduled_for_ms=draw(near),
        retry_not_before_ms=draw(near),
    ), now_ms


@quick
@given(paces, situations())
def test_at_the_promised_instant_the_message_leaves_and_not_a_millisecond_before(
    pace: Pace, case: tuple[Situation, int]
) -> None:
    situation, now_ms = case
    answer = decide(pace, situation, now_ms)
    if isinstance(answer, WaitUntil):
        assert answer.at_ms > now_ms
        assert decide(pace, situation, answer.at_ms) == SendNow()
        assert decide(pace, situation, answer.at_ms - 1) != SendNow()


@quick
@given(paces, situations())
def test_what_leaves_breaks_no_limit(pace: Pace, case: tuple[Situation, int]) -> None:
    situation, now_ms = case
    if decide(pace, situation, now_ms) != SendNow():
        return
    opened, closed = pacing.hours_bounds_ms(pace, now_ms, situation.zone)
    day_start, _ = pacing.day_bounds_ms(now_ms, situation.zone)
    assert opened <= now_ms < closed
    assert now_ms >= situation.silent_until_ms
    assert sum(day_start <= sent for sent in situation.sent) < pace.per_day
    assert sum(now_ms - MINUTE_MS < sent for sent in situation.sent) < pace.per_minute


@quick
@given(paces, situations(), st.integers(0, 5_000))
def test_the_first_in_the_queue_is_estimated_as_it_is_decided_and_the_others_in_order(
    pace: Pace, case: tuple[Situation, int], service_ms: int
) -> None:
    situation, now_ms = case
    answer = decide(pace, situation, now_ms)
    first = eta(pace, situation, 1, now_ms, service_ms)
    if isinstance(answer, WaitUntil):
        assert first == Eta(answer.at_ms, answer.because)
    else:
        assert first == Eta(now_ms, Because.NOTHING)
    instants = [eta(pace, situation, position, now_ms, service_ms).at_ms or 0 for position in range(1, 12)]
    assert instants == sorted(instants)


def test_a_burst_lengthens_the_pauses_of_its_ten_minutes_and_no_more() -> None:
    pace = replace(COLD, per_minute=1000, per_day=1000)
    burst = replace(FREE, burst_until_ms=NOON + pacing.BURST_MS)
    doubled, mean_ms = -(-pacing.BURST_MS // (2 * COLD.mean_pause_ms)), COLD.mean_pause_ms
    assert eta(pace, burst, 11, NOON).at_ms == NOON + 10 * 2 * mean_ms
    assert eta(pace, burst, 301, NOON).at_ms == NOON + (doubled * 2 + 300 - doubled) * mean_ms


def test_a_hold_without_an_end_has_no_eta() -> None:
    assert eta(COLD, replace(FREE, holds=(Hold(),)), 3, NOON) == Eta(None, Because.HELD)


@pytest.mark.parametrize(
    ("position", "answer"),
    [
        (1, Eta(NOON, Because.NOTHING)),
        (2, Eta(NOON + 8_500, Because.BEHIND_OTHERS)),
        (6, Eta(NOON + 60_000, Because.BEHIND_OTHERS)),
        (20, Eta(NOON + 3 * 60_000 + 4 * 8_500, Because.BEHIND_OTHERS)),
        (21, Eta(TOMORROW, Because.DAY_IS_FULL)),
        (22, Eta(TOMORROW + 8_500, Because.DAY_IS_FULL)),
        (41, Eta(at("2026-06-03T09:00"), Because.DAY_IS_FULL)),
    ],
)
def test_an_eta_follows_the_pace_the_minute_and_the_day(position: int, answer: Eta) -> None:
    assert eta(COLD, FREE, position, NOON, service_ms=2_000) == answer


def test_the_schedule_of_a_message_does_not_delay_those_before_it() -> None:
    scheduled = replace(FREE, scheduled_for_ms=NOON + 10_000)
    assert eta(COLD, scheduled, 2, NOON) == Eta(NOON + 10_000, Because.SCHEDULED)


def test_an_eta_at_night_is_named_for_the_hours() -> None:
    assert eta(COLD, FREE, 3, at("2026-06-01T22:00")).because is Because.OUTSIDE_HOURS


def test_a_queue_of_a_thousand_is_estimated_with_few_looks_at_the_calendar(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    real = pacing.day_bounds_ms

    def counted(now_ms: int, zone: ZoneInfo) -> tuple[int, int]:
        looks.append(now_ms)
        return real(now_ms, zone)

    monkeypatch.setattr(pacing, "day_bounds_ms", counted)
    hot = PRESETS[Preset.STANDARD][Trust.HOT]
    assert eta(hot, FREE, 1_000, NOON).because is Because.DAY_IS_FULL
    assert len(looks) <= 4
