"""Messages with a deadline: scheduled, leased to a worker, or expiring."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts


class Deadline(StrEnum):
    """A kind of deadline; its value is the key of its messages."""

    SCHEDULED = keys.SCHEDULED
    LEASE = keys.LEASES
    EXPIRY = keys.EXPIRING


@dataclass(frozen=True, slots=True)
class Overdue:
    """The messages whose deadline has passed, and the earliest deadline of all (None where there is none)."""

    messages: list[str]
    first_ms: int | None


async def overdue(scripts: Scripts, now_ms: int, *, most: int) -> dict[Deadline, Overdue]:
    """Return what is overdue of each kind, at most `most` messages, in one round trip."""
    async with scripts.redis.pipeline(transaction=False) as pipe:
        for kind in Deadline:
            pipe.zrangebyscore(kind, "-inf", now_ms, start=0, num=most)
            pipe.zrange(kind, 0, 0, withscores=True)
        replies: list[Any] = await pipe.execute()
    found = zip(Deadline, replies[::2], replies[1::2], strict=True)
    return {kind: Overdue(messages, int(first[0][1]) if first else None) for kind, messages, first in found}


async def forget(scripts: Scripts, kind: Deadline, messages: Collection[str]) -> None:
    """Remove the deadlines of messages that do not exist any more."""
    if messages:
        await scripts.redis.zrem(kind, *messages)


async def move(scripts: Scripts, kind: Deadline, message_id: str, until_ms: int) -> None:
    """Move a deadline to another instant; one that was removed meanwhile stays removed."""
    await scripts.redis.zadd(kind, {message_id: until_ms}, xx=True)
