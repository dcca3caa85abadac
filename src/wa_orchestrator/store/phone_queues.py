"""Reads the queues of phones: their first messages, their lengths, and a message's position."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wa_orchestrator.domain.ids import MessageId
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.holds import Hold, hold_from
from wa_orchestrator.store.record_codec import decode
from wa_orchestrator.store.records import Message, PhonePace


@dataclass(frozen=True, slots=True)
class QueueHead:
    """A phone's pace (without what it sent), and the first message of its queue ('' where none waits)."""

    phone: str
    pace: PhonePace
    first: MessageId
    set_aside: int
    """How many of its messages a reach-out lock keeps out of the queue."""


async def heads(scripts: Scripts, phones: Sequence[str]) -> tuple[dict[str, Hold], list[QueueHead]]:
    """Return the holds and the heads of these phones' queues, in one round trip."""
    async with scripts.redis.pipeline(transaction=False) as pipe:
        for phone in phones:
            pipe.hgetall(keys.pace(phone))
            pipe.zrange(keys.queue(phone), 0, 0)
            pipe.zcard(keys.set_aside(phone))
        pipe.hgetall(keys.HOLDS)
        replies: list[Any] = await pipe.execute()
    holds = {field: hold_from(field, text) for field, text in replies.pop().items()}
    found = zip(phones, replies[::3], replies[1::3], replies[2::3], strict=True)
    return holds, [
        QueueHead(phone, decode(PhonePace, pace, sent=()), MessageId(first[0] if first else ""), int(set_aside))
        for phone, pace, first, set_aside in found
    ]


@dataclass(frozen=True, slots=True)
class Position:
    """Where a message stands in its phone's queue of `length` messages; `rank` is None if it is not routed yet."""

    rank: int | None
    length: int
    is_set_aside: bool
    is_known_contact: bool


async def position(scripts: Scripts, message: Message) -> Position:
    """Return the position of a message."""
    async with scripts.redis.pipeline(transaction=False) as pipe:
        pipe.zrank(keys.queue(message.phone), message.id)
        pipe.zcard(keys.queue(message.phone))
        pipe.zscore(keys.set_aside(message.phone), message.id)
        pipe.sismember(keys.contacts(message.phone), message.to)
        rank, length, set_aside, known = await pipe.execute()
    return Position(rank, length, set_aside is not None, bool(known))


@dataclass(frozen=True, slots=True)
class QueuePage:
    """The first messages of a phone's queue and of those set aside, with how many there are of each."""

    queued: list[str]
    length: int
    set_aside: list[str]
    set_aside_length: int


async def page(scripts: Scripts, phone: str, *, most: int) -> QueuePage:
    """Return the first `most` message ids of a phone's queue."""
    async with scripts.redis.pipeline(transaction=False) as pipe:
        pipe.zrange(keys.queue(phone), 0, most - 1)
        pipe.zcard(keys.queue(phone))
        pipe.zrange(keys.set_aside(phone), 0, most - 1)
        pipe.zcard(keys.set_aside(phone))
        return QueuePage(*await pipe.execute())


async def depth(scripts: Scripts, phone: str) -> tuple[int, str]:
    """Return how many messages wait for a phone, and the one in flight ('' for none)."""
    async with scripts.redis.pipeline(transaction=False) as pipe:
        pipe.zcard(keys.queue(phone))
        pipe.hget(keys.pace(phone), "in_flight")
        waiting, in_flight = await pipe.execute()
    return int(waiting), in_flight or ""


async def asleep(scripts: Scripts, phones: Sequence[str]) -> list[str]:
    """Return the phones for which messages wait although they are not due at any time and nothing is in flight."""
    async with scripts.redis.pipeline(transaction=False) as pipe:
        for phone in phones:
            pipe.zscore(keys.DUE, phone)
            pipe.hget(keys.pace(phone), "in_flight")
            pipe.zcard(keys.queue(phone))
            pipe.zcard(keys.set_aside(phone))
        replies: list[Any] = await pipe.execute()
    found = zip(phones, replies[::4], replies[1::4], replies[2::4], replies[3::4], strict=True)
    return [
        phone
        for phone, due, in_flight, queued, set_aside in found
        if due is None and not in_flight and queued + set_aside > 0
    ]


async def remove(scripts: Scripts, phone: str, message_id: str) -> None:
    """Remove the queue entry of a message that does not exist any more."""
    await scripts.redis.zrem(keys.queue(phone), message_id)


async def sent_and_queued(scripts: Scripts, since_ms: Sequence[tuple[str, int]]) -> list[tuple[int, int]]:
    """Return for each phone how many messages it sent since an instant, and how many are in its queue."""
    async with scripts.redis.pipeline(transaction=False) as pipe:
        for phone, start_ms in since_ms:
            pipe.zcount(keys.sent(phone), start_ms, "+inf")
            pipe.zcard(keys.queue(phone))
        replies: list[Any] = await pipe.execute()
    return list(zip(replies[::2], replies[1::2], strict=True))


async def submitted(scripts: Scripts, since_ms: Sequence[tuple[str, int]]) -> list[int]:
    """Return for each phone how many messages were submitted to it since an instant within the last minute."""
    async with scripts.redis.pipeline(transaction=False) as pipe:
        for phone, start_ms in since_ms:
            pipe.zcount(keys.submitted(phone), start_ms, "+inf")
        counts: list[int] = await pipe.execute()
    return counts
