"""Admission of messages: each is accepted once and within the limits, or rejected with a reason."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from pydantic_core import to_json

from wa_orchestrator.domain.pacing.forecast import Turn
from wa_orchestrator.errors import Broken
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Reply, Scripts, read_outcome
from wa_orchestrator.store.leases import Limited
from wa_orchestrator.store.records import MessageChanges

IDEMPOTENCY_MS: Final = 24 * 3600 * 1000
#: Messages per call of the script; Redis serves others between two calls.
MOST_AT_ONCE: Final = 50
_SHARED: Final = (
    keys.GATEWAY_JOBS, keys.GATEWAY_WAITING, keys.COUNTS, keys.OPT_OUTS, keys.SEQUENCE, keys.EXPIRING, keys.EVENTS,
    keys.UNCONFIRMED,
)  # fmt: skip

Part = str | int | float | bytes
Call = tuple[list[str], list[Part]]
"""The keys and the arguments of a script."""


class NewMessage(NamedTuple):
    """A message to be accepted. `fields` are stored with it as they are."""

    id: str
    whatsapp_id: str
    phone: str
    session: str
    to: str
    priority: int = 2
    due_ms: int = 0
    expires_ms: int = 0
    fields: MessageChanges = MessageChanges()
    affinity: str | None = None
    """The session that had the conversation ('' = none) when the server chose the sender; None if the client did."""
    conversation: str = ""
    """The name of the record that says who has the conversation; '' for the one that is shared by all clients."""
    is_watched: bool = False
    """Whether `Accepted` says if the recipient is a stranger."""


class Room(NamedTuple):
    """The limits of an admission. `defer_to_ms` 0 rejects a message when the day is full."""

    queue_limit: int
    per_day: int
    day_start_ms: int
    defer_to_ms: int = 0


@dataclass(frozen=True, slots=True)
class Idempotency:
    """A client's key (hashed, in its API key's name space) and the fingerprint of the body it came with."""

    api_key_id: str
    key_hash: str
    fingerprint: str

    @property
    def name(self) -> str:
        """The key of its record."""
        return keys.idempotency(self.api_key_id, self.key_hash)


class Rate(NamedTuple):
    """The rate of an API key: one call every `gap_ms`, and `burst` of them at once."""

    api_key_id: str
    gap_ms: float
    burst: int


UNCOUNTED: Final = Rate("", 0, 0)
"""For messages whose call was counted already, or needs no counting."""


class Wanted(NamedTuple):
    """A message as the script takes it: its keys, and its arguments as JSON."""

    names: tuple[str, ...]
    words: bytes


class Accepted(NamedTuple):
    """It is stored durably. `ahead` messages of its phone's queue go first; one that is not due yet has a `turn`.

    `is_after_unconfirmed`: within a day the recipient may have got another message that WhatsApp never confirmed.
    `is_to_stranger`: the recipient never wrote to the phone, as far as is known; False where nobody asked.
    """

    ahead: int
    now_ms: int
    turn: Turn | None = None
    is_after_unconfirmed: bool = False
    is_to_stranger: bool = False


@dataclass(frozen=True, slots=True)
class Replayed:
    """The request was accepted before: its message, and its response ('' if the server died before it responded)."""

    message_id: str
    answer: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """The idempotency key was used with another body."""


@dataclass(frozen=True, slots=True)
class OptedOut:
    """The recipient has opted out."""


@dataclass(frozen=True, slots=True)
class OtherSender:
    """The conversation belongs to another session than the caller saw, or to none (''): choose again."""

    session: str


@dataclass(frozen=True, slots=True)
class DayFull:
    """What the phone sent today and what waits reach its limit per day."""

    count: int


@dataclass(frozen=True, slots=True)
class QueueFull:
    """What waits for the phone, scheduled messages included, is at its limit."""

    count: int


@dataclass(frozen=True, slots=True)
class Errored:
    """A command of the script failed: this message is not accepted; the others of the batch are not affected."""

    error: str


Rejection = Conflict | OptedOut | DayFull | QueueFull
Acceptance = Accepted | Replayed | OtherSender | Rejection


async def accept(
    scripts: Scripts, message: NewMessage, room: Room, idempotency: Idempotency | None = None
) -> Acceptance | Limited:
    """Accept a message, or return why not. A message that is `Accepted` survives any crash."""
    reply = await scripts.run("admit_messages", *admit_call(UNCOUNTED, [wanted(message, room, idempotency)]))
    outcome = read_admission(reply[0])
    if isinstance(outcome, Errored):
        raise Broken(f"Redis answered {outcome.error}")
    return outcome


def wanted(message: NewMessage, room: Room, idempotency: Idempotency | None) -> Wanted:
    """Return a message's keys and arguments in the order of the script."""
    queue, sent, pace, later, *people = _of_phone(message.phone)
    affinity = keys.affinity(message.conversation or message.to)
    names: tuple[str, ...] = (keys.message(message.id), queue, sent, pace, affinity, later, *people)
    fingerprint = ""
    if idempotency is not None:
        fingerprint = idempotency.fingerprint
        names += (idempotency.name,)
    words: list[object] = [
        message.id, message.phone, message.to, fingerprint, room.queue_limit, room.per_day, room.day_start_ms,
        message.due_ms, room.defer_to_ms, message.expires_ms, message.session, message.priority,
        False if message.affinity is None else message.affinity, message.is_watched, "whatsapp_id", message.whatsapp_id,
    ]  # fmt: skip
    for name, value in message.fields.items():
        if value:
            words += (name, str(value))  # an enum takes `to_json` as long as everything else
    return Wanted(names, to_json(words))


@lru_cache(maxsize=4096)
def _of_phone(phone: str) -> tuple[str, ...]:
    queues = keys.queue(phone), keys.sent(phone), keys.pace(phone), keys.later(phone)
    return *queues, keys.contacts(phone), keys.unanswered(phone), keys.set_aside(phone)


def admit_call(rate: Rate, messages: Iterable[Wanted]) -> Call:
    """Return the keys and arguments of the script for at most `MOST_AT_ONCE` messages of one API key."""
    names = [keys.rate(rate.api_key_id), *_SHARED]
    words: list[Part] = [rate.gap_ms, rate.burst, IDEMPOTENCY_MS]
    for message in messages:
        names += message.names
        words.append(message.words)
    return names, words


_REJECTIONS: Final[dict[str, Callable[..., Replayed | Rejection | OtherSender | Limited | Errored]]] = {
    "replayed": Replayed, "conflict": Conflict, "opted_out": OptedOut, "other_sender": OtherSender,
    "day_full": DayFull, "queue_full": QueueFull, "limited": Limited, "error": Errored,
}  # fmt: skip


def read_admission(reply: Reply) -> Acceptance | Limited | Errored:
    """Return the script's reply about one message as a value."""
    match reply:
        case ["accepted", ahead, now, earlier, stranger]:
            return Accepted(ahead, now, None, earlier != "", stranger != "")
        case ["scheduled", ahead, now, *turn, earlier, stranger]:
            return Accepted(ahead, now, Turn(*turn), earlier != "", stranger != "")
        case _:
            return read_outcome("admit_messages", reply, **_REJECTIONS)
