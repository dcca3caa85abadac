"""Messages with a deadline: scheduled, leased to a worker, or expiring."""

from collections.abc import Collection
from enum import StrEnum

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts


class Deadline(StrEnum):
    """A kind of deadline; its value is the key of its messages."""

    SCHEDULED = keys.SCHEDULED
    LEASE = keys.LEASES
    EXPIRY = keys.EXPIRING


async def overdue(scripts: Scripts, now_ms: int, *, most: int) -> dict[Deadline, list[str]]:
    """Return the messages of each kind whose deadline has passed, at most `most`, in one round trip."""
    found = await scripts.each(lambda pipe, key: pipe.zrangebyscore(key, "-inf", now_ms, start=0, num=most), Deadline)
    return dict(zip(Deadline, found, strict=True))


async def forget(scripts: Scripts, kind: Deadline, messages: Collection[str]) -> None:
    """Remove the deadlines of messages that do not exist any more."""
    if messages:
        await scripts.redis.zrem(kind, *messages)


async def move(scripts: Scripts, kind: Deadline, message_id: str, until_ms: int) -> None:
    """Move a deadline to another instant; one that was removed meanwhile stays removed."""
    await scripts.redis.zadd(kind, {message_id: until_ms}, xx=True)
