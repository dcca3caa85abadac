"""The life of a message: a ladder that is climbed and never descended, but for a few named steps back."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import assert_never

from wa_orchestrator.domain.content import (
    LONGEST_CAPTION,
    LONGEST_TEXT,
    BadContent,
    Content,
    Location,
    Media,
    MediaKind,
    Problem,
    Text,
    problems,
)
from wa_orchestrator.domain.message_failures import REMEDIES, Failure, Remedy, failure_of, sentence

__all__ = [
    "ENDED",
    "FORWARD",
    "IN_FLIGHT",
    "LONGEST_CAPTION",
    "LONGEST_TEXT",
    "MAX_ATTEMPTS",
    "REMEDIES",
    "STEPS_BACK",
    "SUCCEEDED",
    "TERMINAL",
    "WAITING",
    "BadContent",
    "Content",
    "Failure",
    "GiveUp",
    "Location",
    "Media",
    "MediaKind",
    "Problem",
    "Remedy",
    "Retry",
    "Status",
    "StopSession",
    "Text",
    "after_failure",
    "failure_of",
    "is_whatsapp_id",
    "join",
    "may_move",
    "problems",
    "sentence",
    "whatsapp_id",
]


class Status(StrEnum):
    """How far a message has come, in the order of truth: what stands later beats what stands earlier."""

    QUEUED = "queued"
    """Accepted; waits in its phone's queue. Can be cancelled."""
    SCHEDULED = "scheduled"
    """Released to the session's outbox; the worker may take it any moment. Can be cancelled."""
    SENDING = "sending"
    """A worker holds it. Can no longer be cancelled."""
    CANCELLED = "cancelled"
    """Taken back before it was sent. Send a new one if it is wanted after all."""
    EXPIRED = "expired"
    """Its last moment passed before it could be sent. Send a new one."""
    FAILED = "failed"
    """Given up; the reason says why. It can be retried with the same WhatsApp id."""
    SENT = "sent"
    """WhatsApp's server acknowledged it, nothing less."""
    DELIVERED = "delivered"
    """It reached the recipient's device."""
    READ = "read"
    """The recipient saw it."""


S = Status
_RANK = {status: rank for rank, status in enumerate(Status)}

#: Nothing more will happen to it, unless it turns out that WhatsApp has it after all or a person retries it.
TERMINAL = frozenset({S.FAILED, S.EXPIRED, S.CANCELLED, S.READ})
#: It is no longer owed: it was sent or given up.
ENDED = frozenset({S.CANCELLED, S.EXPIRED, S.FAILED, S.SENT, S.DELIVERED, S.READ})
#: It waits for its turn and may be cancelled.
WAITING = frozenset({S.QUEUED, S.SCHEDULED})
#: At most one message of a session is in these.
IN_FLIGHT = frozenset({S.SCHEDULED, S.SENDING})
#: WhatsApp has it.
SUCCEEDED = frozenset({S.SENT, S.DELIVERED, S.READ})

#: What may follow what. An ack of success is true whoever says it and whenever, so it may follow anything.
FORWARD: Mapping[Status, frozenset[Status]] = MappingProxyType(
    {
        S.QUEUED: frozenset({S.SCHEDULED, S.CANCELLED, S.EXPIRED, S.FAILED}) | SUCCEEDED,
        S.SCHEDULED: frozenset({S.SENDING, S.CANCELLED, S.EXPIRED, S.FAILED}) | SUCCEEDED,
        S.SENDING: frozenset({S.FAILED}) | SUCCEEDED,
        S.CANCELLED: SUCCEEDED,
        S.EXPIRED: SUCCEEDED,
        S.FAILED: SUCCEEDED,
        S.SENT: frozenset({S.DELIVERED, S.READ}),
        S.DELIVERED: frozenset({S.READ}),
        S.READ: frozenset(),
    }
)
#: The only steps back: the session went away, a lease ran out or an attempt failed; an operator retries a dead letter.
STEPS_BACK = frozenset({(S.SCHEDULED, S.QUEUED), (S.SENDING, S.QUEUED), (S.FAILED, S.QUEUED)})


def may_move(before: Status, after: Status) -> bool:
    """Say whether a message may go from `before` to `after`."""
    return after in FORWARD[before] or (before, after) in STEPS_BACK


def join(one: Status, other: Status) -> Status:
    """Give the further of two reports about a message, whatever their order.

    Success beats failure: a worker that was given up may have sent the message after all, and then it is sent.
    """
    return max(one, other, key=_RANK.__getitem__)


MAX_ATTEMPTS = 3
BACKOFF_BASE_MS = 5_000
BACKOFF_MAX_MS = 300_000


@dataclass(frozen=True, slots=True)
class Retry:
    """Back to the queue, with the same WhatsApp id, not before `backoff_ms` have passed."""

    backoff_ms: int
    remedy: Remedy


@dataclass(frozen=True, slots=True)
class GiveUp:
    """A dead letter; `reason` says why."""

    reason: Failure


@dataclass(frozen=True, slots=True)
class StopSession:
    """The account is at fault: the message waits in its queue, and the session sends nothing more."""

    reason: Failure


def after_failure(attempts: int, failure: Failure, dice: float = 0.5) -> Retry | GiveUp | StopSession:
    """Decide what becomes of a message whose `attempts`-th attempt failed (1 for the first).

    `dice` in [0, 1) spreads the pause by a quarter to either side.
    """
    remedy = REMEDIES[failure]
    match remedy:
        case Remedy.NEVER:
            return GiveUp(failure)
        case Remedy.STOP_SESSION:
            return StopSession(failure)
        case Remedy.HAND_BACK:
            return Retry(0, remedy)
        case Remedy.RETRY_SAME_ID | Remedy.REFRESH_THEN_RETRY:
            if attempts >= MAX_ATTEMPTS:
                return GiveUp(failure)
            return Retry(backoff_ms(attempts, dice), remedy)
    assert_never(remedy)


def backoff_ms(attempts: int, dice: float) -> int:
    """Give the pause after the `attempts`-th failed attempt: it doubles each time, up to five minutes."""
    whole = min(BACKOFF_BASE_MS * 2 ** (min(attempts, 16) - 1), BACKOFF_MAX_MS)
    return int(whole * (0.75 + 0.5 * dice))


_ID_PREFIX = "3EB0"
_ID_BYTES = 9


def whatsapp_id(nine_random_bytes: bytes) -> str:
    """Make a message id in the shape that Baileys itself makes: `3EB0` and 18 upper-case hex digits."""
    if len(nine_random_bytes) != _ID_BYTES:
        raise ValueError(f"a WhatsApp id is made of {_ID_BYTES} random bytes, not {len(nine_random_bytes)}")
    return _ID_PREFIX + nine_random_bytes.hex().upper()


def is_whatsapp_id(text: str) -> bool:
    """Say whether `text` has the shape of an id that `whatsapp_id` makes."""
    digits = text.removeprefix(_ID_PREFIX)
    return len(text) == 22 and len(digits) == 2 * _ID_BYTES and set(digits) <= set("0123456789ABCDEF")
