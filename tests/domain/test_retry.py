"""After a failed attempt: a real doubling up to five minutes, and an end after MAX_ATTEMPTS."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.properties import quick
from wa_orchestrator.domain.messages.failures import Failure, Remedy
from wa_orchestrator.domain.messages.retry import (
    GiveUp,
    PutAside,
    Retry,
    SlowDown,
    StopSession,
    after_failure,
    backoff_ms,
)


@pytest.mark.parametrize(
    ("attempts", "failure", "answer"),
    [
        (1, Failure.NO_ACK, Retry(5_000)),
        (2, Failure.NO_ACK, Retry(10_000)),
        (3, Failure.NO_ACK, GiveUp()),
        (1, Failure.STALE_DEVICES, Retry(5_000)),
        (1, Failure.NOT_ON_WHATSAPP, GiveUp()),
        (1, Failure.REACHOUT_LOCKED, GiveUp()),
        (9, Failure.NEW_CHAT_CAP, PutAside()),
        (1, Failure.BANNED, StopSession()),
        (7, Failure.LEASE_EXPIRED, Retry(0)),
        (7, Failure.RATE_LIMITED, SlowDown(30_000)),
        (7, Failure.OVERLOADED, SlowDown(30_000)),
    ],
)
def test_a_failure_is_answered_by_its_kind_and_the_number_of_attempts(
    attempts: int, failure: Failure, answer: Retry | GiveUp | SlowDown | StopSession
) -> None:
    assert after_failure(failure, attempts, max_attempts=3, jitter=0.5) == answer


def test_ten_attempts_back_off_by_doubling_up_to_five_minutes() -> None:
    answers = [after_failure(Failure.NO_ACK, attempts, max_attempts=10, jitter=0.5) for attempts in range(1, 11)]
    seconds = [5, 10, 20, 40, 80, 160, 300, 300, 300]
    assert answers == [*(Retry(1_000 * pause) for pause in seconds), GiveUp()]


def test_each_time_whatsapp_asks_for_less_the_phone_pauses_longer_up_to_five_minutes() -> None:
    answers = [
        after_failure(Failure.RATE_LIMITED, 1, max_attempts=3, jitter=0.5, slowdowns=before) for before in range(6)
    ]
    assert answers == [SlowDown(1_000 * pause) for pause in (30, 60, 120, 240, 300, 300)]


@quick
@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_a_backoff_stays_within_a_quarter_of_its_mean_and_below_its_cap(attempts: int, jitter: float) -> None:
    mean = min(5_000 * 2 ** (attempts - 1), 300_000)
    assert 0.75 * mean - 1 <= backoff_ms(attempts, jitter) <= 1.25 * mean


@quick
@given(st.sampled_from(list(Failure)), st.integers(1, 50), st.integers(0, 50))
def test_no_failure_is_retried_for_ever_unless_it_is_not_the_messages_fault(
    failure: Failure, max_attempts: int, more: int
) -> None:
    answer = after_failure(failure, max_attempts + more, max_attempts=max_attempts, jitter=0.5)
    assert not isinstance(answer, Retry) or failure.remedy is Remedy.HAND_BACK
