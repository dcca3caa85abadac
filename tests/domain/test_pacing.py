"""Whether a phone may send now: the limit that ends last is the answer, and it is stable."""

from dataclasses import replace
from datetime import datetime, time
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.properties import quick
from wa_orchestrator.domain.pacing.decision import SendNow, Situation, WaitFor, WaitUntil, decide
from wa_orchestrator.domain.pacing.hours import day_bounds_ms, hours_bounds_ms, release_bounds_ms
from wa_orchestrator.domain.pacing.limits import MINUTE_MS, PRESETS, Pace, Preset, Trust
from wa_orchestrator.domain.pacing.wait_reasons import WaitReason

ZONE = ZoneInfo("Asia/Jerusalem")
COLD = PRESETS[Preset.STANDARD][Trust.COLD]


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=ZONE).timestamp() * 1000)


NOON = at("2026-06-01T12:00")
TOMORROW = at("2026-06-02T09:00")
FREE = Situation(ZONE)
HELD, OFFLINE = WaitFor(WaitReason.HELD), WaitFor(WaitReason.SESSION_OFFLINE)
FULL = Situation(ZONE, sent=[at("2026-06-01T09:00") + n * MINUTE_MS for n in range(20)])


@pytest.mark.parametrize(
    ("situation", "now_ms", "answer"),
    [
        (FREE, NOON, SendNow()),
        (FREE, at("2026-06-01T08:59"), WaitUntil(at("2026-06-01T09:00"), WaitReason.OUTSIDE_HOURS)),
        (FREE, at("2026-06-01T21:00"), WaitUntil(TOMORROW, WaitReason.OUTSIDE_HOURS)),
        (FREE, at("2026-06-01T20:59"), WaitUntil(TOMORROW, WaitReason.OUTSIDE_HOURS)),  # it would arrive too late
        (FREE, at("2026-06-01T20:59") - 1, SendNow()),
        (replace(FREE, silent_until_ms=NOON + 7), NOON, WaitUntil(NOON + 7, WaitReason.PAUSE)),
        (replace(FREE, silent_until_ms=NOON), NOON, SendNow()),
        (
            replace(FREE, silent_until_ms=at("2026-06-01T21:01")),
            at("2026-06-01T20:59"),
            WaitUntil(TOMORROW, WaitReason.OUTSIDE_HOURS),
        ),
        (
            replace(FREE, sent=[NOON - 50_000 + n for n in range(5)]),
            NOON,
            WaitUntil(NOON + 10_000, WaitReason.MINUTE_IS_FULL),
        ),
        (replace(FREE, sent=[NOON - 60_000 + n for n in range(5)]), NOON, SendNow()),
        (replace(FREE, sent=[NOON - 50_000 + n for n in range(4)]), NOON, SendNow()),
        (FULL, NOON, WaitUntil(TOMORROW, WaitReason.DAY_IS_FULL)),
        (FULL, at("2026-06-01T22:00"), WaitUntil(TOMORROW, WaitReason.DAY_IS_FULL)),
        (replace(FULL, sent=FULL.sent[1:]), NOON, SendNow()),
        (FULL, TOMORROW, SendNow()),
        (
            replace(FULL, waits=(WaitUntil(TOMORROW + 1, WaitReason.SCHEDULED),)),
            NOON,
            WaitUntil(TOMORROW + 1, WaitReason.SCHEDULED),
        ),
        (
            replace(FREE, waits=(WaitUntil(NOON + 9, WaitReason.SCHEDULED),)),
            NOON,
            WaitUntil(NOON + 9, WaitReason.SCHEDULED),
        ),
        (replace(FREE, waits=(WaitUntil(NOON, WaitReason.HELD),)), NOON, SendNow()),
        (replace(FREE, waits=(HELD,)), NOON, WaitFor(WaitReason.HELD)),
        (
            replace(
                FREE, waits=(WaitUntil(NOON + 3, WaitReason.HELD), WaitUntil(NOON + 2, WaitReason.REACHOUT_LOCKED))
            ),
            NOON,
            WaitUntil(NOON + 3, WaitReason.HELD),
        ),
        (replace(FREE, waits=(HELD, WaitFor(WaitReason.BANNED_HOLD))), NOON, WaitFor(WaitReason.BANNED_HOLD)),
        (replace(FREE, waits=(OFFLINE,)), NOON, WaitFor(WaitReason.SESSION_OFFLINE)),
        (replace(FREE, waits=(OFFLINE, HELD)), NOON, WaitFor(WaitReason.HELD)),
        (replace(FREE, waits=(OFFLINE, WaitUntil(TOMORROW, WaitReason.HELD))), NOON, OFFLINE),
        (replace(FREE, waits=(WaitFor(WaitReason.REACHOUT_LOCKED),)), NOON, WaitFor(WaitReason.REACHOUT_LOCKED)),
        (replace(FREE, waits=(WaitFor(WaitReason.NEW_CHAT_CAP),)), NOON, WaitFor(WaitReason.NEW_CHAT_CAP)),
    ],
)
def test_the_limit_that_ends_last_is_the_answer(
    situation: Situation, now_ms: int, answer: SendNow | WaitUntil | WaitFor
) -> None:
    assert decide(COLD, situation, now_ms) == answer


def test_a_day_that_is_full_ends_at_midnight_where_the_night_is_open() -> None:
    night = replace(COLD, opens=time(22), closes=time(6), per_day=1)
    late = Situation(ZONE, sent=[at("2026-06-01T22:30")])
    assert decide(night, late, at("2026-06-01T23:00")) == WaitUntil(at("2026-06-02T00:00"), WaitReason.DAY_IS_FULL)


@pytest.mark.parametrize(("closes", "last_call"), [("09:05", "09:04:30"), ("09:30", "09:29"), ("09:00", None)])
def test_hours_of_a_few_minutes_lose_a_tenth_at_their_end_and_endless_ones_nothing(
    closes: str, last_call: str | None
) -> None:
    pace = replace(COLD, closes=time.fromisoformat(closes))
    opened, until = release_bounds_ms(pace, at("2026-06-01T09:01"), ZONE)
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


OWN_WAITS = [WaitReason.HELD, WaitReason.REACHOUT_LOCKED, WaitReason.SCHEDULED]


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
        burst_until_ms=draw(near),
        waits=tuple(draw(st.lists(st.builds(WaitUntil, near, st.sampled_from(OWN_WAITS)), max_size=3))),
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
def test_a_message_that_leaves_breaks_no_limit(pace: Pace, case: tuple[Situation, int]) -> None:
    situation, now_ms = case
    if decide(pace, situation, now_ms) != SendNow():
        return
    opened, closed = hours_bounds_ms(pace, now_ms, situation.zone)
    day_start, _ = day_bounds_ms(now_ms, situation.zone)
    assert opened <= now_ms < closed
    assert now_ms >= situation.silent_until_ms
    assert sum(day_start <= sent for sent in situation.sent) < pace.per_day
    assert sum(now_ms - MINUTE_MS < sent for sent in situation.sent) < pace.per_minute
