"""After a restore, what may have left does not leave again by itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.properties import quick
from wa_orchestrator.domain.messages.message import SUCCEEDED, MessageStatus
from wa_orchestrator.domain.messages.restored_message import (
    Note,
    may_have_left,
    note_of_return,
    settled_status,
    trace_of,
)

S = MessageStatus
_NOTES = [*Note, S.SENT, S.DELIVERED, S.FAILED, S.UNKNOWN, S.CANCELLED, S.EXPIRED]


@pytest.mark.parametrize(
    ("notes", "trace"),
    [
        ([], ""),
        (["written"], "written"),
        (["written", "sent"], "sent"),
        (["written", "sent", "delivered"], "delivered"),
        (["sent", "returned"], "sent"),
        (["sent", "written"], "sent"),
        (["written", "returned"], ""),
        (["written", "doubted"], "doubted"),
        (["written", "doubted", "written", "returned"], "doubted"),
        (["doubted"], ""),  # it never came to writing
        (["written", "unknown"], "unknown"),
        (["written", "unknown", "retried"], "doubted"),
        (["written", "failed", "retried"], ""),
        (["cancelled"], "cancelled"),
    ],
)
def test_notes_leave_a_trace(notes: list[str], trace: str) -> None:
    assert trace_of(notes) == trace


@pytest.mark.parametrize(
    ("reason", "note"),
    [
        ("LEASE_EXPIRED", Note.DOUBTED),
        ("NEW_EPOCH", Note.DOUBTED),
        ("NO_ACK", Note.DOUBTED),
        ("HELD", Note.RETURNED),
        ("HANDED_BACK", Note.RETURNED),
        ("RETRIED", Note.RETRIED),
    ],
)
def test_the_reason_of_a_return_says_whether_the_attempt_may_have_arrived(reason: str, note: Note) -> None:
    assert note_of_return(reason) is note


@pytest.mark.parametrize(
    ("status", "in_doubt", "may_be_written", "trace", "settled"),
    [
        (S.QUEUED, False, True, "", None),
        (S.SCHEDULED, False, True, "", None),
        (S.SENDING, False, False, "", None),  # claimed, and not yet allowed to be written
        (S.SENDING, False, True, "", S.UNKNOWN),
        (S.QUEUED, True, True, "", S.UNKNOWN),
        (S.QUEUED, False, True, "written", S.UNKNOWN),
        (S.QUEUED, False, True, "doubted", S.UNKNOWN),
        (S.QUEUED, False, True, "read", S.READ),
        (S.QUEUED, True, True, "cancelled", S.CANCELLED),
    ],
)
def test_an_open_message_gets_the_end_that_is_known_or_unknown_or_waits(
    status: S, in_doubt: bool, may_be_written: bool, trace: str, settled: S | None
) -> None:
    assert settled_status(status, in_doubt=in_doubt, may_be_written=may_be_written, trace=trace) is settled


@quick
@given(st.lists(st.sampled_from(_NOTES)), st.lists(st.sampled_from([Note.RETURNED, Note.DOUBTED])))
def test_what_was_written_and_got_no_answer_never_waits_to_be_sent_again(before: list[str], after: list[str]) -> None:
    trace = trace_of([*before, Note.WRITTEN, Note.DOUBTED, *after])
    settled = settled_status(S.QUEUED, in_doubt=False, may_be_written=True, trace=trace)
    assert settled is S.UNKNOWN or settled in SUCCEEDED


@pytest.mark.parametrize(
    ("trace", "expected"),
    [("", False), ("written", True), ("doubted", True), ("sent", True), ("unknown", True), ("cancelled", False)],
)
def test_a_message_that_only_the_journal_knows_may_have_left(trace: str, expected: bool) -> None:
    assert may_have_left(trace) == expected
