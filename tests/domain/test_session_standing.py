"""Reports that are repeated and reordered in any way give the same standing."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.properties import quick
from tests.domain.test_session import FROM_WORKER
from wa_orchestrator.domain.sessions import standing as session_standing
from wa_orchestrator.domain.sessions.session import Event, IllegalTransition, Reason, State
from wa_orchestrator.domain.sessions.standing import Report, apply, decide, fold, initial

NEW = initial(epoch=1, at_ms=1_000)

reports = st.lists(
    st.builds(
        Report,
        event=st.sampled_from(FROM_WORKER),
        epoch=st.integers(0, 3),
        at_ms=st.integers(1_000, 1_006),
        sequence=st.integers(0, 3),
    ),
    max_size=10,
)


@quick
@given(reports, st.data())
def test_any_shuffle_and_any_repetition_gives_the_same_standing(reports: list[Report], data: st.DataObject) -> None:
    repeated = reports + data.draw(st.lists(st.sampled_from(reports), max_size=6) if reports else st.just([]))
    shuffled = data.draw(st.permutations(repeated))
    assert fold(NEW, shuffled) == fold(NEW, reports)


@quick
@given(reports)
def test_an_older_epoch_never_changes_anything(reports: list[Report]) -> None:
    fenced = decide(NEW, Event.RESTART_ASKED, 2_000, epoch=9)
    assert fold(fenced, reports) == fenced


@quick
@given(reports, st.sampled_from(list(Event)))
def test_a_standing_survives_encoding(reports: list[Report], event: Event) -> None:
    standing = fold(NEW, reports)
    with suppress(IllegalTransition):
        standing = decide(standing, event, 9_000)
    assert session_standing.decode(session_standing.encode(standing)) == standing


@quick
@given(reports)
def test_a_standing_stays_small(reports: list[Report]) -> None:
    assert len(fold(NEW, reports * 3).reports) <= len(FROM_WORKER)


def test_a_code_that_arrives_after_its_connection_changes_nothing() -> None:
    linked = apply(NEW, Report(Event.CONNECTED, 1, 5_000))
    assert apply(linked, Report(Event.QR_SHOWN, 1, 4_000)).state is State.CONNECTED


def test_a_loss_that_overtakes_its_connection_still_counts() -> None:
    lost = fold(NEW, [Report(Event.CONNECTION_LOST, 1, 6_000), Report(Event.CONNECTED, 1, 5_000)])
    assert (lost.state, lost.reason, lost.at_ms) == (State.DISCONNECTED, Reason.RECONNECTING, 6_000)


def test_the_sequence_orders_two_reports_of_one_millisecond() -> None:
    lost = fold(NEW, [Report(Event.CONNECTION_LOST, 1, 5_000, 2), Report(Event.CONNECTED, 1, 5_000, 1)])
    assert lost.state is State.DISCONNECTED


def test_a_stop_outlives_reports_that_were_made_before_it_and_after_it() -> None:
    stopped = decide(apply(NEW, Report(Event.CONNECTED, 1, 5_000)), Event.STOP_ASKED, 6_000)
    again = fold(stopped, [Report(Event.CONNECTED, 1, 5_000), Report(Event.CONNECTED, 1, 7_000)])
    assert (again.state, again.reason, again.at_ms) == (State.STOPPED, Reason.STOPPED_BY_OPERATOR, 6_000)


def test_a_stop_outlives_a_worker_that_was_started_at_the_same_time() -> None:
    stopped = decide(apply(NEW, Report(Event.CONNECTED, 1, 5_000)), Event.STOP_ASKED, 6_000)
    assert apply(stopped, Report(Event.QR_SHOWN, 2, 7_000)).state is State.STOPPED


def test_a_new_worker_that_does_not_connect_leaves_the_state_that_the_server_set() -> None:
    moved = decide(apply(NEW, Report(Event.CONNECTED, 1, 5_000)), Event.PROXY_LOST, 6_000)
    again = apply(moved, Report(Event.CONNECTION_LOST, 2, 7_000))
    assert (again.state, again.reason, again.epoch) == (State.DISCONNECTED, Reason.PROXY_FAILOVER, 2)


def test_a_report_that_the_server_has_already_answered_changes_nothing() -> None:
    moved = decide(apply(NEW, Report(Event.CONNECTED, 1, 5_000)), Event.PROXY_LOST, 6_000)
    assert apply(moved, Report(Event.CONNECTED, 1, 5_000)) == moved
    assert apply(moved, Report(Event.CONNECTED, 1, 6_500)).state is State.CONNECTED


def test_an_event_that_changes_nothing_still_raises_the_epoch() -> None:
    linked = apply(NEW, Report(Event.CONNECTED, 1, 5_000))
    same = decide(linked, Event.START_ASKED, 6_000)
    fenced = decide(linked, Event.START_ASKED, 6_000, epoch=2)
    assert same == linked
    assert (fenced.state, fenced.epoch, fenced.at_ms) == (State.CONNECTED, 2, 5_000)


def test_the_epoch_never_goes_down() -> None:
    assert decide(NEW, Event.STOP_ASKED, 2_000, epoch=0).epoch == 1


def test_the_time_of_a_standing_is_when_it_changed_and_not_when_it_was_confirmed() -> None:
    stopped = decide(NEW, Event.STOP_ASKED, 2_000)
    assert decide(stopped, Event.STOP_ASKED, 3_000).at_ms == 2_000


def test_an_illegal_decision_raises() -> None:
    with pytest.raises(IllegalTransition):
        decide(decide(NEW, Event.STOP_ASKED, 2_000), Event.GONE_SILENT, 3_000)


def test_a_report_that_only_the_server_can_make_is_skipped_where_it_is_illegal() -> None:
    stopped = decide(NEW, Event.STOP_ASKED, 2_000)
    assert apply(stopped, Report(Event.GONE_SILENT, 1, 3_000)).state is State.STOPPED
