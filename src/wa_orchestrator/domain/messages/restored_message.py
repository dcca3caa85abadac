"""Decides about open messages when a backup is restored into an empty Redis: what may have been sent is not sent
again by itself.

The journal beside the backups has notes about each message since the backup. Folded in the order of time they are its
trace; the trace and the record in the backup decide.
"""

from collections.abc import Iterable
from enum import StrEnum

from wa_orchestrator.domain.messages.failures import UNANSWERED
from wa_orchestrator.domain.messages.message import SUCCEEDED, MessageStatus


class Note(StrEnum):
    """A note of the journal that is not the end of a message."""

    WRITTEN = "written"
    """A worker was allowed to write it to WhatsApp. Noted before it could."""
    RETURNED = "returned"
    """It went back to its queue, and this attempt cannot have arrived."""
    DOUBTED = "doubted"
    """It went back to its queue, and this attempt may have arrived: no answer came."""
    RETRIED = "retried"
    """A person queued it again after it was given up."""


#: What is known of a message since the backup: '' (nothing left), `written`, `doubted`, or the status it ended with.
Trace = str

_STATUSES = frozenset(MessageStatus)
_MAY_HAVE_LEFT = frozenset({Note.WRITTEN, Note.DOUBTED})


def note_of_return(reason: str) -> Note:
    """Return the note for a message that went back to its queue for this reason."""
    if reason == "RETRIED":
        return Note.RETRIED
    return Note.DOUBTED if reason in _LEFT_OPEN else Note.RETURNED


#: The worker that held it is gone, or WhatsApp gave no answer.
_LEFT_OPEN = frozenset({"LEASE_EXPIRED", "NEW_EPOCH", *UNANSWERED})


def trace_of(notes: Iterable[str]) -> Trace:
    """Return the trace that notes leave, in the order of time."""
    trace: Trace = ""
    for note in notes:
        trace = _after(trace, note)
    return trace


def _after(trace: Trace, note: str) -> Trace:
    if trace in SUCCEEDED and note not in SUCCEEDED:
        return trace  # WhatsApp has it, whatever else is reported
    match note:
        case Note.WRITTEN:
            return Note.DOUBTED if trace == Note.DOUBTED else Note.WRITTEN
        case Note.RETURNED:  # an earlier attempt stays in doubt
            return "" if trace == Note.WRITTEN else trace
        case Note.DOUBTED:  # without a note ahead nothing was written
            return Note.DOUBTED if trace in _MAY_HAVE_LEFT else trace
        case Note.RETRIED:
            return Note.DOUBTED if trace in (MessageStatus.UNKNOWN, Note.DOUBTED) else ""
        case _:
            return note


def may_have_left(trace: Trace) -> bool:
    """Whether a message that the backup does not have may have left since, by its trace."""
    return trace in _MAY_HAVE_LEFT or trace in SUCCEEDED or trace == MessageStatus.UNKNOWN


def settled_status(
    status: MessageStatus, *, in_doubt: bool, may_be_written: bool, trace: Trace
) -> MessageStatus | None:
    """Return the status that an open message of a backup has after the restore; None: it waits and is sent.

    `in_doubt` and `may_be_written` (its worker had been allowed to write) are what its record in the backup says.
    """
    if trace in _STATUSES:
        return MessageStatus(trace)
    if trace in _MAY_HAVE_LEFT or in_doubt or (status == MessageStatus.SENDING and may_be_written):
        return MessageStatus.UNKNOWN
    return None
