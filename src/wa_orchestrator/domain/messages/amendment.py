"""Whether a message may still be edited, or deleted for everyone: WhatsApp's own limits, which phones enforce."""

from enum import StrEnum
from typing import Final

from wa_orchestrator.domain.messages.message import SUCCEEDED, MessageStatus

#: Phones ignore what comes later: an edit after a quarter of an hour, a deletion after two and a half days.
EDITABLE_MS: Final = 15 * 60_000
DELETABLE_MS: Final = 60 * 3_600_000
#: Kinds whose words can be changed: a text, or the caption of a picture, a video or a document.
EDITABLE: Final = frozenset({"text", "image", "video", "document"})


class Unamendable(StrEnum):
    """Why a message cannot be changed any more."""

    NOT_OURS = "NOT_OURS"
    """Somebody else wrote it."""
    NOT_SENT = "NOT_SENT"
    """WhatsApp does not have it. One that waits can be cancelled instead."""
    TOO_LATE = "AMENDED_TOO_LATE"
    """WhatsApp's time for it is over; phones would not show it."""
    NO_WORDS = "NOT_EDITABLE"
    """A message of this kind has no words to change."""


def edit_refusal(
    kind: str, status: MessageStatus | None, *, is_ours: bool, sent_ms: int, now_ms: int
) -> Unamendable | None:
    """Return why a message cannot be edited; None if it can. `status` is None for one that another device sent."""
    if not is_ours:
        return Unamendable.NOT_OURS
    if kind not in EDITABLE:
        return Unamendable.NO_WORDS
    return _refusal(status, sent_ms, now_ms, EDITABLE_MS)


def deletion_refusal(
    status: MessageStatus | None, *, is_ours: bool, in_group: bool, sent_ms: int, now_ms: int
) -> Unamendable | None:
    """Return why a message cannot be deleted for everyone; None if it can. An admin may delete what others wrote."""
    if not is_ours and not in_group:
        return Unamendable.NOT_OURS
    return _refusal(status, sent_ms, now_ms, DELETABLE_MS)


def _refusal(status: MessageStatus | None, sent_ms: int, now_ms: int, limit_ms: int) -> Unamendable | None:
    if status is not None and status not in SUCCEEDED:
        return Unamendable.NOT_SENT
    return Unamendable.TOO_LATE if now_ms - sent_ms > limit_ms else None
