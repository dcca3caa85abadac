"""Taking a message in: once, within the limits, or with a reason why not."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from wa_orchestrator.store import keys
from wa_orchestrator.store.scripts import Reply, Scripts, flat, unexpected

IDEMPOTENCY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message as the gateway wants it accepted. `fields` are stored with it as they are."""

    id: str
    whatsapp_id: str
    phone: str
    session: str
    to: str
    priority: int = 2
    due_ms: int = 0
    expires_ms: int = 0
    fields: Mapping[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Room:
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


@dataclass(frozen=True, slots=True)
class Accepted:
    """It is in, durably. `ahead` messages of its phone go first; `due_ms` is not 0 when it waits for its time."""

    ahead: int
    now_ms: int
    submitted_in_minute: int
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


Acceptance = Accepted | Replayed | Conflict | OptedOut | DayFull | QueueFull


async def accept(
    scripts: Scripts, message: NewMessage, room: Room, idempotency: Idempotency | None = None
) -> Acceptance:
    """Take a message in, or say why not. When it returns `Accepted`, the message survives whatever dies next."""
    return read_acceptance(await scripts.run("accept", *accept_call(message, room, idempotency)))


def accept_call(
    message: NewMessage, room: Room, idempotency: Idempotency | None
) -> tuple[list[str], list[str | int | float]]:
    """The keys and arguments of the script, for callers that batch their calls."""
    record = keys.idempotency(idempotency.api_key_id, idempotency.key_hash) if idempotency else keys.idempotency("", "")
    names = [
        record,
        keys.message(message.id),
        keys.story(message.id),
        keys.GATEWAY_JOBS,
        keys.GATEWAY_WAITING,
        keys.COUNTS,
        keys.queue(message.phone),
        keys.sent(message.phone),
        keys.OPT_OUTS,
        keys.submitted(message.phone),
        keys.SEQUENCE,
        keys.EXPIRING,
        keys.EVENTS,
        keys.pace(message.phone),
    ]
    args: list[str | int | float] = [
        message.id,
        message.phone,
        message.to,
        idempotency.fingerprint if idempotency else "",
        IDEMPOTENCY_MS,
        room.queue_limit,
        room.per_day,
        room.day_start_ms,
        message.due_ms,
        room.defer_to_ms,
        message.expires_ms,
        message.session,
        message.priority,
        *flat({"whatsapp_id": message.whatsapp_id, **message.fields}),
    ]
    return names, args


def read_acceptance(reply: Reply) -> Acceptance:
    """The script's words as a value."""
    match reply:
        case ["accepted", ahead, now, submitted, due]:
            return Accepted(int(ahead), int(now), int(submitted), int(due))
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
        case _:
            raise unexpected("accept", reply)


async def remember_answer(scripts: Scripts, idempotency: Idempotency, answer: str) -> None:
    """Keep the answer for a repeat of the request; the record's end of life stays."""
    await scripts.redis.hset(keys.idempotency(idempotency.api_key_id, idempotency.key_hash), "answer", answer)
