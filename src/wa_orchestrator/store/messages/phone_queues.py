"""Reads the queues of phones: their first messages, their lengths, and a message's position."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from redis.asyncio.client import Pipeline

from wa_orchestrator.domain.ids import MessageId
from wa_orchestrator.domain.pacing.backlog import QueueCounts
from wa_orchestrator.domain.pacing.forecast import Turn
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages.holds import Hold, holds_from
from wa_orchestrator.store.record_codec import decode
from wa_orchestrator.store.records import Message, PhonePace


@dataclass(frozen=True, slots=True)
class QueueHead:
    """A phone's pace (without what it sent), and the first message of its queue ('' where none waits)."""

    phone: str
    pace: PhonePace
    first: MessageId
    set_aside: MessageId
    """The first message that a limit on new contacts keeps out of the queue; '' where none is kept out."""

    @property
    def head(self) -> MessageId:
        """The message that the phone serves next: its first one; of those set aside only where no other waits."""
        return self.first or self.set_aside


async def heads(scripts: Scripts, phones: Sequence[str]) -> tuple[dict[str, Hold], list[QueueHead]]:
    """Return the holds and the heads of these phones' queues, in one round trip."""
    async with scripts.redis.pipeline(transaction=False) as pipe:
        for phone in phones:
            pipe.hgetall(keys.pace(phone))
            pipe.zrange(keys.queue(phone), 0, 0)
            pipe.zrange(keys.set_aside(phone), 0, 0)
        pipe.hgetall(keys.HOLDS)
        replies: list[Any] = await pipe.execute()
    holds = holds_from(replies.pop())
    found = zip(phones, replies[::3], replies[1::3], replies[2::3], strict=True)
    return holds, [
        QueueHead(phone, decode(PhonePace, pace, sent=()), _first(queued), _first(set_aside))
        for phone, pace, queued, set_aside in found
    ]


def _first(ids: Sequence[str]) -> MessageId:
    return MessageId(ids[0] if ids else "")


@dataclass(frozen=True, slots=True)
class Position:
    """Where a message stands in its phone's queue of `length` messages; `rank` is None if it is not in it.

    A message that is not due yet has a `turn` instead.
    """

    rank: int | None
    length: int
    is_set_aside: bool
    is_known_contact: bool
    turn: Turn | None


async def position(scripts: Scripts, message: Message, *, names: Sequence[str]) -> Position:
    """Return where a message stands; `names` are those of its recipient."""
    async with scripts.redis.pipeline(transaction=False) as pipe:
        pipe.zrank(keys.queue(message.phone), message.id)
        pipe.zcard(keys.queue(message.phone))
        pipe.zscore(keys.set_aside(message.phone), message.id)
        pipe.smismember(keys.contacts(message.phone), list(names))
        pipe.zrank(keys.later(message.phone), message.id)
        pipe.zcount(keys.later(message.phone), "-inf", f"({message.due_at}")
        pipe.zrange(keys.later(message.phone), 0, 0, withscores=True)
        rank, length, set_aside, known, later_rank, earlier, first = await pipe.execute()
    turn = None if later_rank is None else Turn(message.due_at, later_rank, later_rank - earlier, int(first[0][1]))
    return Position(rank, length, set_aside is not None, any(known), turn)


@dataclass(frozen=True, slots=True)
class QueuePage:
    """The first messages of a phone's queue, of those set aside and of those not due yet, and how many there are."""

    queued: list[str]
    length: int
    set_aside: list[str]
    set_aside_length: int
    later: list[tuple[str, float]]
    """Each with its due instant."""


async def page(scripts: Scripts, phone: str, *, most: int) -> QueuePage:
    async with scripts.redis.pipeline(transaction=False) as pipe:
        pipe.zrange(keys.queue(phone), 0, most - 1)
        pipe.zcard(keys.queue(phone))
        pipe.zrange(keys.set_aside(phone), 0, most - 1)
        pipe.zcard(keys.set_aside(phone))
        pipe.zrange(keys.later(phone), 0, most - 1, withscores=True)
        return QueuePage(*await pipe.execute())


async def count_ahead(scripts: Scripts, phone: str, priority: int) -> int:
    """Return how many messages would leave before a new one of this priority."""
    pipe = scripts.redis.pipeline(transaction=False)
    pipe.zcount(keys.queue(phone), "-inf", f"({(priority + 1) * 1e15:.0f}")
    pipe.hget(keys.GATEWAY_WAITING, phone)
    queued, unrouted = await pipe.execute()
    return int(queued) + int(unrouted or 0)


async def counts(scripts: Scripts, phone: str, day_ms: tuple[int, int]) -> QueueCounts:
    """Return how many messages wait for a phone, and how many it sent on this day."""
    (found,) = await counts_of_each(scripts, [(phone, day_ms)])
    return found


async def counts_of_each(scripts: Scripts, days: Sequence[tuple[str, tuple[int, int]]]) -> list[QueueCounts]:
    """Return the counts of each of these phones, with its day, in one round trip."""
    if not days:
        return []
    async with scripts.redis.pipeline(transaction=True) as pipe:
        for phone, day_ms in days:
            add_counts(pipe, phone, day_ms)
        replies: list[Any] = await pipe.execute()
    return [read_counts(replies[COUNTS * at : COUNTS * (at + 1)]) for at in range(len(days))]


#: The number of replies for `read_counts`.
COUNTS: Final = 6


def add_counts(pipe: Pipeline, phone: str, day_ms: tuple[int, int]) -> None:
    """Add the commands whose `COUNTS` replies `read_counts` takes."""
    day_start_ms, day_end_ms = day_ms
    pipe.zcard(keys.queue(phone))
    pipe.hget(keys.GATEWAY_WAITING, phone)
    pipe.zcard(keys.set_aside(phone))
    pipe.zcard(keys.later(phone))
    pipe.zcount(keys.later(phone), "-inf", f"({day_end_ms}")
    pipe.zcount(keys.sent(phone), day_start_ms, "+inf")


def read_counts(replies: Sequence[Any]) -> QueueCounts:
    """Return the counts from the replies to `add_counts`."""
    queued, unrouted, set_aside, scheduled, scheduled_today, sent_today = (int(each or 0) for each in replies)
    return QueueCounts(queued + unrouted, set_aside, scheduled, scheduled_today, sent_today)


Rank = tuple[int | None, int | None]
"""A waiting message's rank in its phone's queue, and among those not due yet; None where it is not."""


async def ranks(scripts: Scripts, messages: Sequence[Message]) -> list[Rank]:
    """Return the ranks of these messages; one that is not routed yet has the rank that it will get."""
    async with scripts.redis.pipeline(transaction=False) as pipe:
        for message in messages:
            pipe.zrank(keys.queue(message.phone), message.id)
            pipe.zrank(keys.later(message.phone), message.id)
            pipe.zscore(keys.set_aside(message.phone), message.id)
            pipe.zcard(keys.queue(message.phone))
        replies: list[Any] = await pipe.execute()
    found: list[Rank] = []
    unrouted: Counter[str] = Counter()
    places = zip(messages, replies[::4], replies[1::4], replies[2::4], replies[3::4], strict=True)
    for message, queued, later, set_aside, length in places:
        if queued is None and later is None and set_aside is None:
            found.append((length + unrouted[message.phone], None))
            unrouted[message.phone] += 1
        else:
            found.append((queued, later))
    return found


async def in_flight(scripts: Scripts, phone: str) -> str:
    """Return the message of a phone that is being sent ('' for none)."""
    return str(await scripts.redis.hget(keys.pace(phone), "in_flight") or "")


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
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.zrem(keys.queue(phone), message_id)
        pipe.zrem(keys.set_aside(phone), message_id)
        await pipe.execute()


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
