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


@pytest.mark.parametrize("code", ["whatever", 479])
def test_what_the_worker_says_is_no_use_is_not_retried(code: str | int) -> None:
    assert failure_of(code, retryable=False) is Failure.REFUSED


def test_a_code_whose_cure_is_the_servers_is_what_it_is_whatever_the_worker_says() -> None:
    assert failure_of(503, retryable=False) is Failure.OVERLOADED


def test_every_remedy_is_that_of_some_failure() -> None:
    assert {failure.remedy for failure in Failure} == set(Remedy)
