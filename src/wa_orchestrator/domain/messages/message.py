"""The statuses of a message and the legal transitions between them. The Lua scripts are tested against this table."""

import re
from collections.abc import Mapping
from enum import StrEnum


class MessageStatus(StrEnum):
    """The status of a message. Of two reports about one message, the status that comes later in this list is true."""

    QUEUED = "queued"
    """Accepted; waits in its phone's queue. Can be cancelled."""
    SCHEDULED = "scheduled"
    """Released to the session's outbox; the worker may claim it any moment. Can be cancelled."""
    SENDING = "sending"
    """Claimed by a worker. Can no longer be cancelled; an opt-out or its expiry still ends it until it is written."""
    CANCELLED = "cancelled"
    """Cancelled before it was sent. Send a new one if it is still needed."""
    EXPIRED = "expired"
    """Its expiry passed before it could be sent. Send a new one."""
    FAILED = "failed"
    """Given up; the reason says why. It can be retried with the same WhatsApp id."""
    UNKNOWN = "unknown"
    """Tried, never confirmed: the recipient may have it. Ask them, or retry it with the same WhatsApp id."""
    SENT = "sent"
    """WhatsApp's server acknowledged it."""
    DELIVERED = "delivered"
    """It reached the recipient's device."""
    READ = "read"
    """The recipient read it."""


S = MessageStatus

#: Waits for its turn and may be cancelled.
WAITING = frozenset({S.QUEUED, S.SCHEDULED})
#: Given up; a person may retry it.
DEAD = frozenset({S.FAILED, S.UNKNOWN})
#: WhatsApp has it.
SUCCEEDED = frozenset({S.SENT, S.DELIVERED, S.READ})

#: The transitions forward. An ack of success is true whenever it arrives, so it may follow anything.
FORWARD: Mapping[MessageStatus, frozenset[MessageStatus]] = {
    S.QUEUED: frozenset({S.SCHEDULED, S.CANCELLED, S.EXPIRED, S.FAILED, S.UNKNOWN}) | SUCCEEDED,
    S.SCHEDULED: frozenset({S.SENDING, S.CANCELLED, S.EXPIRED, S.FAILED, S.UNKNOWN}) | SUCCEEDED,
    S.SENDING: frozenset({S.CANCELLED, S.EXPIRED, S.FAILED, S.UNKNOWN}) | SUCCEEDED,
    S.CANCELLED: SUCCEEDED,
    S.EXPIRED: SUCCEEDED,
    S.FAILED: SUCCEEDED,
    S.UNKNOWN: SUCCEEDED,
    S.SENT: frozenset({S.DELIVERED, S.READ}),
    S.DELIVERED: frozenset({S.READ}),
    S.READ: frozenset(),
}
#: The only transitions back: the session went away, a lease expired or an attempt failed; an operator retries a dead
#: letter.
BACK = frozenset({(S.SCHEDULED, S.QUEUED), (S.SENDING, S.QUEUED), (S.FAILED, S.QUEUED), (S.UNKNOWN, S.QUEUED)})


def may_become(before: MessageStatus, after: MessageStatus) -> bool:
    """Whether a message may go from `before` to `after`."""
    return after in FORWARD[before] or (before, after) in BACK


_ID_BYTES = 9
_ID = re.compile(rf"3EB0[0-9A-F]{{{2 * _ID_BYTES}}}")


def whatsapp_id(nine_random_bytes: bytes) -> str:
    """Return a message id in the format that Baileys uses: `3EB0` and 18 upper-case hex digits."""
    if len(nine_random_bytes) != _ID_BYTES:
        raise ValueError(f"a WhatsApp id is made of {_ID_BYTES} random bytes, not {len(nine_random_bytes)}")
    return "3EB0" + nine_random_bytes.hex().upper()


def message_id_of(whatsapp_id: str) -> str | None:
    """Return our id of the message with this WhatsApp id; None for a message that we did not send."""
    return f"m_{whatsapp_id[4:].lower()}" if _ID.fullmatch(whatsapp_id) else None
