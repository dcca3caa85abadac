"""The table of session states is total, and its transitions are those that support expects."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.properties import quick
from wa_orchestrator.domain.sessions import session
from wa_orchestrator.domain.sessions.session import Event, Ignored, Reason, State, StateChange, advance

EVERY_PAIR = set(product(State, Event))
HEBREW = range(0x0590, 0x0600)


def test_every_pair_is_a_transition_or_ignored_or_illegal_and_never_two_of_them() -> None:
    kinds = [set(session.TRANSITIONS), set(session.IGNORED), set(session.ILLEGAL)]
    assert set.union(*kinds) == EVERY_PAIR
    assert sum(map(len, kinds)) == len(EVERY_PAIR)


@pytest.mark.parametrize(
    ("state", "event", "then", "reason"),
    [
        (State.PENDING, Event.WORKER_STARTED, State.PENDING, Reason.STARTING),
        (State.DISCONNECTED, Event.WORKER_STARTED, State.DISCONNECTED, Reason.RECONNECTING),
        (State.CONNECTED, Event.WORKER_STARTED, State.DISCONNECTED, Reason.RECONNECTING),
        (State.PENDING, Event.QR_SHOWN, State.QR_READY, Reason.SCAN_THE_CODE),
        (State.QR_READY, Event.PASSKEY_ASKED, State.QR_READY, Reason.SIGN_WITH_PASSKEY),
        (State.QR_READY, Event.QR_RENEWED, State.QR_READY, Reason.SCAN_AGAIN),
        (State.FAILED, Event.VERSION_RETRIED, State.PENDING, Reason.WAITING_FOR_TURN),
        (State.PENDING, Event.CODE_SHOWN, State.QR_READY, Reason.ENTER_THE_CODE),
        (State.QR_READY, Event.CONNECTED, State.CONNECTED, None),
        (State.PENDING, Event.CONNECTED, State.CONNECTED, None),
        (State.CONNECTED, Event.CONNECTION_LOST, State.DISCONNECTED, Reason.RECONNECTING),
        (State.DISCONNECTED, Event.CONNECTED, State.CONNECTED, None),
        (State.CONNECTED, Event.LOGGED_OUT, State.PENDING, Reason.LOGGED_OUT),
        (State.CONNECTED, Event.REPLACED, State.FAILED, Reason.REPLACED_ELSEWHERE),
        (State.CONNECTED, Event.BANNED, State.FAILED, Reason.BANNED),
        (State.STOPPED, Event.BANNED, State.FAILED, Reason.BANNED),
        (State.CONNECTED, Event.TEMPORARILY_BANNED, State.FAILED, Reason.TEMPORARY_BAN),
        (State.QR_READY, Event.PASSKEY_DEMANDED, State.FAILED, Reason.PASSKEY_REQUIRED),
        (State.PENDING, Event.CLIENT_REFUSED, State.FAILED, Reason.CLIENT_OUTDATED),
        (State.PENDING, Event.AUTH_BROKEN, State.FAILED, Reason.AUTH_FAILURE),
        (State.QR_READY, Event.QR_RAN_OUT, State.FAILED, Reason.QR_EXPIRED),
        (State.CONNECTED, Event.PROXY_LOST, State.DISCONNECTED, Reason.PROXY_FAILOVER),
        (State.QR_READY, Event.PROXY_LOST, State.PENDING, Reason.PROXY_FAILOVER),
        (State.CONNECTED, Event.PROXY_STRUCK, State.DISCONNECTED, Reason.PROXY_RETRY),
        (State.DISCONNECTED, Event.NO_CAPACITY, State.DISCONNECTED, Reason.WAITING_FOR_PROXY),
        (State.DISCONNECTED, Event.FAILED_OVER, State.DISCONNECTED, Reason.PROXY_FAILOVER),
        (State.CONNECTED, Event.STICKY_PROXY_FOUND, State.DISCONNECTED, Reason.MOVING_TO_STICKY_PROXY),
        (State.CONNECTED, Event.GONE_SILENT, State.DISCONNECTED, Reason.WORKER_SILENT),
        (State.CONNECTED, Event.WORKER_DIED, State.DISCONNECTED, Reason.WORKER_CRASHED),
        (State.DISCONNECTED, Event.RESTARTED_TOO_OFTEN, State.FAILED, Reason.TOO_MANY_RESTARTS),
        (State.CONNECTED, Event.SERVER_STOPPED, State.DISCONNECTED, Reason.SERVER_STOPPED),
        (State.QR_READY, Event.SERVER_STOPPED, State.PENDING, Reason.SERVER_STOPPED),
        (State.CONNECTED, Event.STOP_ASKED, State.STOPPED, Reason.STOPPED_BY_OPERATOR),
        (State.STOPPED, Event.STOP_ASKED, State.STOPPED, Reason.STOPPED_BY_OPERATOR),
        (State.STOPPED, Event.START_ASKED, State.PENDING, Reason.WAITING_FOR_TURN),
        (State.FAILED, Event.START_ASKED, State.PENDING, Reason.WAITING_FOR_TURN),
        (State.CONNECTED, Event.RESTART_ASKED, State.DISCONNECTED, Reason.RESTARTING),
        (State.CONNECTED, Event.BACKUP_BEGAN, State.STOPPED, Reason.BACKUP),
        (State.FAILED, Event.RESTORE_BEGAN, State.STOPPED, Reason.RESTORE),
    ],
)
def test_an_event_takes_a_session_where_support_says(
    state: State, event: Event, then: State, reason: Reason | None
) -> None:
    assert advance(state, event) == StateChange(then, reason)


@pytest.mark.parametrize(
    ("state", "event"),
    [
        (State.CONNECTED, Event.CONNECTED),
        (State.CONNECTED, Event.QR_SHOWN),
        (State.CONNECTED, Event.START_ASKED),
        (State.DISCONNECTED, Event.SERVER_STOPPED),
        (State.PENDING, Event.SERVER_STOPPED),
        (State.STOPPED, Event.SERVER_STOPPED),
        (State.STOPPED, Event.CONNECTED),
        (State.STOPPED, Event.BACKUP_BEGAN),
        (State.FAILED, Event.REPLACED),
        (State.QR_READY, Event.CONNECTION_LOST),
    ],
)
def test_an_event_that_comes_late_or_twice_changes_nothing(state: State, event: Event) -> None:
    assert advance(state, event) == Ignored()


@pytest.mark.parametrize(("state", "event"), sorted(session.ILLEGAL))
def test_what_cannot_happen_raises(state: State, event: Event) -> None:
    with pytest.raises(session.IllegalTransition, match=f"{state} cannot have {event}"):
        advance(state, event)


def test_every_reason_is_reached_by_some_transition_or_at_creation() -> None:
    reached = {moved.reason for moved in session.TRANSITIONS.values()}
    assert set(Reason) <= reached


def test_failed_always_says_why() -> None:
    assert all(m.reason is not None for m in session.TRANSITIONS.values() if m.state is not State.CONNECTED)


@pytest.mark.parametrize(
    ("state", "reason", "needed"),
    [
        (State.FAILED, Reason.BANNED, True),
        (State.FAILED, Reason.TEMPORARY_BAN, False),
        (State.FAILED, Reason.CLIENT_OUTDATED, False),
        (State.QR_READY, Reason.SCAN_THE_CODE, True),
        (State.PENDING, Reason.LOGGED_OUT, True),
        (State.DISCONNECTED, Reason.WAITING_FOR_PROXY, True),
        (State.DISCONNECTED, Reason.RECONNECTING, False),
        (State.CONNECTED, None, False),
    ],
)
def test_a_person_is_needed_only_where_one_can_help(state: State, reason: Reason | None, needed: bool) -> None:
    assert session.needs_person(state, reason) is needed


#: What a worker can say; a stopped session hears of it only when it is banned.
FROM_WORKER = list(Event)[: list(Event).index(Event.WORKER_STARTED)]


@pytest.mark.parametrize("event", FROM_WORKER)
def test_no_report_of_a_worker_starts_a_stopped_session_again(event: Event) -> None:
    move = advance(State.STOPPED, event)
    if event in {Event.BANNED, Event.TEMPORARILY_BANNED}:
        assert isinstance(move, StateChange)
        assert move.state is State.FAILED
    else:
        assert move == Ignored()


@quick
@given(st.sampled_from(list(State)), st.lists(st.sampled_from(list(Event))))
def test_a_session_sends_only_while_its_last_event_was_connected(state: State, events: list[Event]) -> None:
    last: Event | None = None
    for event in events:
        if (state, event) in session.ILLEGAL:
            continue
        if isinstance(move := advance(state, event), StateChange):
            state, last = move.state, event
    if last is not None:
        assert (state in session.CAN_SEND) == (last is Event.CONNECTED)


@pytest.mark.parametrize(
    ("state", "reason", "comes_back"),
    [
        (State.DISCONNECTED, Reason.RECONNECTING, True),
        (State.STOPPED, Reason.BACKUP, True),
        (State.STOPPED, Reason.STOPPED_BY_OPERATOR, False),
        (State.DISCONNECTED, Reason.WAITING_FOR_PROXY, False),
        (State.FAILED, Reason.BANNED, False),
        (State.FAILED, Reason.TEMPORARY_BAN, True),
    ],
)
def test_a_session_comes_back_by_itself_unless_a_person_is_needed(
    state: State, reason: Reason, comes_back: bool
) -> None:
    assert session.comes_back(state, reason) is comes_back
