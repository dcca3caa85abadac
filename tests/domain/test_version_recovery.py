"""Sessions with a refused version: one tries, its success releases all, and nothing else does so early."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.domain.sessions.version_recovery import (
    RETRY_AFTER_MS,
    AcceptedLogin,
    NextTrial,
    RefusedSession,
    Release,
    Trial,
    TryOne,
    decide,
)

T = RETRY_AFTER_MS
FLEET = [RefusedSession(f"w{n:02}", 1000 + n, 50) for n in range(50)]


@pytest.mark.parametrize(
    ("login", "trial", "now_ms", "answer"),
    [
        (AcceptedLogin(), Trial(), 2000, NextTrial(1000 + T)),
        (AcceptedLogin("w90", 999, 60), Trial(), 2000, NextTrial(1000 + T)),
        (AcceptedLogin(), Trial(), 1000 + T, TryOne("w00")),
        (AcceptedLogin(), Trial("w00", 1000 + T), 1001 + T, NextTrial(1000 + 2 * T)),
        (AcceptedLogin(), Trial("w00", 1000 + T), 1000 + 2 * T, TryOne("w01")),
        (
            AcceptedLogin("w00", 1500 + T, 50),
            Trial("w00", 1000 + T),
            1600 + T,
            Release(tuple(each.session for each in FLEET)),
        ),
        (AcceptedLogin("w90", 2000, 60), Trial(), 2001, Release(tuple(each.session for each in FLEET))),
        (AcceptedLogin("w90", 2000, 50), Trial(), 2001, NextTrial(1000 + T)),
        (AcceptedLogin("w90", 2000, 50), Trial(), 1002 + T, Release(("w00", "w01", "w02"))),
    ],
)
def test_one_tries_and_its_success_releases_all(
    login: AcceptedLogin, trial: Trial, now_ms: int, answer: Release | TryOne | NextTrial
) -> None:
    assert decide(FLEET, login=login, trial=trial, now_ms=now_ms) == answer


def test_a_single_session_tries_again_itself() -> None:
    assert decide([FLEET[0]], login=AcceptedLogin(), trial=Trial("w00", 5000), now_ms=5000 + T) == TryOne("w00")


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=50), st.integers(0, 100 * T))
def test_without_a_login_at_most_one_session_starts_per_quarter_of_an_hour(since: list[int], until_ms: int) -> None:
    refused = [RefusedSession(str(n), at) for n, at in enumerate(since)]
    trial, starts = Trial(), 0
    for now_ms in range(0, until_ms, T // 4):
        match decide(refused, login=AcceptedLogin(), trial=trial, now_ms=now_ms):
            case TryOne(session):
                starts += 1
                trial = Trial(session, now_ms)
            case Release():
                raise AssertionError("nobody may be released")
            case NextTrial(at_ms):
                assert at_ms > now_ms
    assert starts <= until_ms // T + 1
