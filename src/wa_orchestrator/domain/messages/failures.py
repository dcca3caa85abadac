"""Why a message was not sent: a closed list with remedies. Its sentence is `message_failure.<code>` in `texts`."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Self


class Remedy(StrEnum):
    """What the server does after a failure."""

    RETRY_SAME_ID = "retry_same_id"
    """Back off and send the same message with the same WhatsApp id; counts as an attempt."""
    REFRESH_THEN_RETRY = "refresh_then_retry"
    """The worker refreshes the recipient's devices and sends again with the same id; counts as an attempt."""
    HAND_BACK = "hand_back"
    """The message is not at fault: it goes back to the front of its queue and no attempt is counted."""
    SLOW_DOWN = "slow_down"
    """WhatsApp wants less: the phone pauses, longer each time, and the message waits; no attempt is counted."""
    STOP_SESSION = "stop_session"
    """The account is at fault: the session stops sending and the message waits; no attempt is counted."""
    SET_ASIDE = "set_aside"
    """The phone may begin no new chats now: the message waits until it may; no attempt is counted."""
    NEVER = "never"
    """A retry cannot help, or makes it worse."""


class Failure(StrEnum):
    """Why an attempt to send a message did not succeed, and its remedy."""

    remedy: Remedy

    def __new__(cls, code: str, remedy: Remedy) -> Self:
        member = str.__new__(cls, code)
        member._value_, member.remedy = code, remedy
        return member

    NO_ACK = "NO_ACK", Remedy.RETRY_SAME_ID
    CONNECTION_LOST = "CONNECTION_LOST", Remedy.RETRY_SAME_ID
    SERVER_ERROR = "SERVER_ERROR", Remedy.RETRY_SAME_ID
    RATE_LIMITED = "RATE_LIMITED", Remedy.SLOW_DOWN
    OVERLOADED = "OVERLOADED", Remedy.SLOW_DOWN
    MEDIA_UNREACHABLE = "MEDIA_UNREACHABLE", Remedy.RETRY_SAME_ID
    UNKNOWN = "UNKNOWN", Remedy.RETRY_SAME_ID
    STALE_DEVICES = "STALE_DEVICES", Remedy.REFRESH_THEN_RETRY
    HANDED_BACK = "HANDED_BACK", Remedy.HAND_BACK
    LEASE_EXPIRED = "LEASE_EXPIRED", Remedy.HAND_BACK
    LOGGED_OUT = "LOGGED_OUT", Remedy.STOP_SESSION
    BANNED = "BANNED", Remedy.STOP_SESSION
    REPLACED_ELSEWHERE = "REPLACED_ELSEWHERE", Remedy.STOP_SESSION
    # A retry counts as another attempt to reach out to a stranger and makes the lock longer.
    REACHOUT_LOCKED = "REACHOUT_LOCKED", Remedy.NEVER
    NO_TRUST_TOKEN = "NO_TRUST_TOKEN", Remedy.NEVER
    NEW_CHAT_CAP = "NEW_CHAT_CAP", Remedy.SET_ASIDE
    ADDRESSING = "ADDRESSING", Remedy.NEVER
    NOT_ON_WHATSAPP = "NOT_ON_WHATSAPP", Remedy.NEVER
    OPTED_OUT = "OPTED_OUT", Remedy.NEVER
    BAD_CONTENT = "BAD_CONTENT", Remedy.NEVER
    MEDIA_REFUSED = "MEDIA_REFUSED", Remedy.NEVER
    REFUSED = "REFUSED", Remedy.NEVER
    SESSION_DELETED = "SESSION_DELETED", Remedy.NEVER
    SESSION_RELINKED = "SESSION_RELINKED", Remedy.NEVER
    NO_SENDER = "NO_SENDER", Remedy.NEVER
    SENDER_LOST = "SENDER_LOST", Remedy.NEVER
    WORKER_CRASHED = "WORKER_CRASHED", Remedy.NEVER
    RESTORED = "RESTORED", Remedy.NEVER


F = Failure


class Doubt(StrEnum):
    """What a failed attempt says about whether the recipient may have the message."""

    RAISED = "raised"
    """They may: it may have been written, and WhatsApp gave no answer."""
    SETTLED = "settled"
    """They cannot have it, from no attempt."""
    KEPT = "kept"
    """Nothing new: this attempt was refused, or did not begin."""


#: WhatsApp gave no answer.
UNANSWERED: frozenset[Failure] = frozenset({F.NO_ACK, F.CONNECTION_LOST, F.UNKNOWN})
#: Nobody can have got it.
IMPOSSIBLE: frozenset[Failure] = frozenset({F.NOT_ON_WHATSAPP, F.BAD_CONTENT, F.MEDIA_REFUSED})

FREEING: frozenset[Failure] = frozenset({F.SESSION_RELINKED, F.SENDER_LOST})
"""After one of these a retry may leave from another phone, and its sentence says so; after any other it may not."""

#: WhatsApp's error numbers in the response to a message. Any other is `UNKNOWN`.
_BY_NUMBER: Mapping[str, Failure] = {
    "400": F.ADDRESSING,
    "401": F.LOGGED_OUT,
    "403": F.BANNED,
    "408": F.NO_ACK,
    "428": F.CONNECTION_LOST,
    "429": F.RATE_LIMITED,
    "440": F.REPLACED_ELSEWHERE,
    "463": F.REACHOUT_LOCKED,  # of a worker that cannot tell its causes apart: the careful reading
    "475": F.NEW_CHAT_CAP,
    "479": F.STALE_DEVICES,
    "500": F.SERVER_ERROR,
    "503": F.OVERLOADED,
    "515": F.CONNECTION_LOST,
}


def failure_of(code: str | int, *, retryable: bool = True) -> Failure:
    """Return the failure that a worker reported by name or by WhatsApp's number.

    An unknown code is retried, unless the worker says that it is not retryable: of stale devices, that it has asked for
    them anew already.
    """
    word = str(code).strip().upper()
    if word in Failure.__members__:
        return Failure[word]
    failure = _BY_NUMBER.get(word, F.UNKNOWN)
    is_final = not retryable and failure in {F.UNKNOWN, F.STALE_DEVICES}
    return F.REFUSED if is_final else failure
