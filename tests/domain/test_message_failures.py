"""Every failure has a remedy, and every code of a worker names a failure."""

import pytest

from wa_orchestrator.domain.messages.failures import Failure, Remedy, failure_of


@pytest.mark.parametrize(
    ("code", "failure", "remedy"),
    [
        ("463", Failure.REACHOUT_LOCKED, Remedy.NEVER),
        (463, Failure.REACHOUT_LOCKED, Remedy.NEVER),
        ("400", Failure.ADDRESSING, Remedy.NEVER),
        ("475", Failure.NEW_CHAT_CAP, Remedy.SET_ASIDE),
        ("NO_TRUST_TOKEN", Failure.NO_TRUST_TOKEN, Remedy.NEVER),
        ("not_on_whatsapp", Failure.NOT_ON_WHATSAPP, Remedy.NEVER),
        (479, Failure.STALE_DEVICES, Remedy.REFRESH_THEN_RETRY),
        (401, Failure.LOGGED_OUT, Remedy.STOP_SESSION),
        (403, Failure.BANNED, Remedy.STOP_SESSION),
        (440, Failure.REPLACED_ELSEWHERE, Remedy.STOP_SESSION),
        (429, Failure.RATE_LIMITED, Remedy.SLOW_DOWN),
        (500, Failure.SERVER_ERROR, Remedy.RETRY_SAME_ID),
        (503, Failure.OVERLOADED, Remedy.SLOW_DOWN),
        ("NO_ACK", Failure.NO_ACK, Remedy.RETRY_SAME_ID),
        (408, Failure.NO_ACK, Remedy.RETRY_SAME_ID),
        (" handed_back ", Failure.HANDED_BACK, Remedy.HAND_BACK),
        ("whatever", Failure.UNKNOWN, Remedy.RETRY_SAME_ID),
    ],
)
def test_a_code_has_its_remedy(code: str | int, failure: Failure, remedy: Remedy) -> None:
    assert failure_of(code) is failure
    assert failure.remedy is remedy


def test_an_unknown_code_is_not_retried_when_the_worker_says_that_it_is_no_use() -> None:
    assert failure_of("whatever", retryable=False) is Failure.REFUSED
    assert failure_of(479, retryable=False) is Failure.STALE_DEVICES


def test_every_remedy_is_that_of_some_failure() -> None:
    assert {failure.remedy for failure in Failure} == set(Remedy)
