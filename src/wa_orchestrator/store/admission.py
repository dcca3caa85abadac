"""Taking messages in: each once, within the limits, or with a reason why not."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from pydantic_core import to_json

from wa_orchestrator.errors import Broken
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Reply, Scripts, unexpected
from wa_orchestrator.store.leases import Limited
from wa_orchestrator.store.records import MessageChanges

IDEMPOTENCY_MS: Final = 24 * 3600 * 1000
#: Messages that one call of the script may take in; others get their turn in between.
MOST_AT_ONCE: Final = 50
_SHARED: Final = (
    keys.GATEWAY_JOBS, keys.GATEWAY_WAITING, keys.COUNTS, keys.OPT_OUTS, keys.SEQUENCE, keys.EXPIRING, keys.EVENTS,
)  # fmt: skip

Part = str | int | float | bytes
Call = tuple[list[str], list[Part]]
"""The keys and the arguments of a script."""


class NewMessage(NamedTuple):
    """A message as the gateway wants it accepted. `fields` are stored with it as they are."""

    id: str
    whatsapp_id: str
    phone: str
    session: str
    to: str
    priority: int = 2
    due_ms: int = 0
    expires_ms: int = 0
    fields: MessageChanges = MessageChanges()


class Room(NamedTuple):
    """The limits an acceptance is checked against. `defer_to_ms` 0 refuses when the day is full."""

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


class Rate(NamedTuple):
    """How often an API key may call: one call every `gap_ms`, and `burst` of them at once."""

    api_key_id: str
    gap_ms: float
    burst: int


UNCOUNTED: Final = Rate("", 0, 0)
"""For messages whose call was counted already, or needs no counting."""


class Wanted(NamedTuple):
    """A message that shall be taken in: the keys and, as JSON, the words that the script wants of it."""

    names: tuple[str, ...]
    words: bytes


class Accepted(NamedTuple):
    """It is in, durably. `ahead` messages of its phone go first; `due_ms` is not 0 when it waits for its time."""

    ahead: int
    now_ms: int
    due_ms: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """The same request came before; its message, and its answer ('' if the server died before it answered)."""

    message_id: str
    answer: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """The idempotency key was used with another body."""


@dataclass(frozen=True, slots=True)
class OptedOut:
    """The recipient does not want to hear from us."""


@dataclass(frozen=True, slots=True)
class DayFull:
    """The phone's day is full with what was sent and what waits."""

    count: int


@dataclass(frozen=True, slots=True)
class QueueFull:
    """The phone's queue is at its limit."""

    count: int


@dataclass(frozen=True, slots=True)
class Stumbled:
    """Redis refused one of its steps: it is not in, and those that came with it are untouched."""

    error: str


Acceptance = Accepted | Replayed | Conflict | OptedOut | DayFull | QueueFull


async def accept(
    scripts: Scripts, message: NewMessage, room: Room, idempotency: Idempotency | None = None
) -> Acceptance | Limited:
    """Take a message in, or say why not. When it returns `Accepted`, the message survives whatever dies next."""
    reply = await scripts.run("admit_messages", *admit_call(UNCOUNTED, [wanted(message, room, idempotency)]))
    outcome = read_admission(reply[0])
    if isinstance(outcome, Stumbled):
        raise Broken(f"Redis answered {outcome.error}")
    return outcome


def wanted(message: NewMessage, room: Room, idempotency: Idempotency | None) -> Wanted:
    """Put into the script's order what it must know of a message."""
    fingerprint, record = "", keys.idempotency("", "")
    if idempotency is not None:
        fingerprint, record = idempotency.fingerprint, keys.idempotency(idempotency.api_key_id, idempotency.key_hash)
    names = (record, keys.message(message.id), *_of_phone(message.phone))
    words: list[object] = [
        message.id, message.phone, message.to, fingerprint, room.queue_limit, room.per_day, room.day_start_ms,
        message.due_ms, room.defer_to_ms, message.expires_ms, message.session, message.priority,
        "whatsapp_id", message.whatsapp_id,
    ]  # fmt: skip
    for name, value in message.fields.items():
        words += (name, value)
    return Wanted(names, to_json(words))


@lru_cache(maxsize=4096)
def _of_phone(phone: str) -> tuple[str, str, str]:
    return keys.queue(phone), keys.sent(phone), keys.pace(phone)


def admit_call(rate: Rate, messages: Iterable[Wanted]) -> Call:
    """The keys and arguments of the script for messages that came by one API key, `MOST_AT_ONCE` of them at most."""
    names = [keys.rate(rate.api_key_id), *_SHARED]
    words: list[Part] = [rate.gap_ms, rate.burst, IDEMPOTENCY_MS]
    for message in messages:
        names += message.names
        words.append(message.words)
    return names, words


def read_admission(reply: Reply) -> Acceptance | Limited | Stumbled:
    """The script's words about one message as a value."""
    match reply:
        case ["accepted", ahead, now, due]:
            return Accepted(int(ahead), int(now), int(due))
        case ["replayed", message_id, answer]:
            return Replayed(str(message_id), str(answer))
        case ["conflict"]:
            return Conflict()
        case ["opted_out"]:
            return OptedOut()
        case ["day_full", count]:
            return DayFull(int(count))
        case ["queue_full", count]:
            return QueueFull(int(count))
        case ["limited", retry_after_ms]:
            return Limited(int(retry_after_ms))
        case ["error", text]:
            return Stumbled(str(text))
        case _:
            raise unexpected("admit_messages", reply)
