"""Finds all messages that have not ended, in bounded steps: jobs first, then those of an index."""

from collections.abc import AsyncIterator
from typing import Any, Final

from wa_orchestrator.store import keys, records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages.message_keys import Place, locate_all
from wa_orchestrator.store.records import Message

PAGE: Final = 1_000
#: Jobs that may leave the list between two reads without one being missed: more than routers take at once.
_OVERLAP: Final = 400
OPEN: Final = frozenset({"queued", "scheduled", "sending"})
"""The statuses of messages that have not ended."""


async def unended(scripts: Scripts, index: str) -> AsyncIterator[Message]:
    """Yield every job and every message of this index that has not ended; some twice. Collect them before you end them.

    Jobs come first: one that is routed meanwhile is in the index by then.
    """
    for pages in (job_pages(scripts), _indexed(scripts, index)):
        async for ids in pages:
            for message in await records.messages(scripts, ids):
                if message.status in OPEN:
                    yield message


async def waiting(scripts: Scripts, session_id: str, phone: str) -> list[Place]:
    """Return the places of all messages that wait for a session.

    They are not routed yet, not due yet, in its phone's queue, or set aside. Jobs come first here too. What is
    in an outbox is not among them.
    """
    found: dict[str, Place] = {}
    async for ids in job_pages(scripts):
        found |= {place.message: place for place in await locate_all(scripts, ids) if place.session == session_id}
    pipe = scripts.redis.pipeline(transaction=True)  # at one instant: a message moves between them
    pipe.zrange(keys.queue(phone), 0, -1)
    pipe.zrange(keys.set_aside(phone), 0, -1)
    pipe.zrange(keys.later(phone), 0, -1)
    ids = [str(each) for found_there in await pipe.execute() for each in found_there]
    for first in range(0, len(ids), PAGE):
        places = await locate_all(scripts, ids[first : first + PAGE])
        found |= {place.message: place for place in places if place.session == session_id}
    return list(found.values())


async def job_pages(scripts: Scripts) -> AsyncIterator[list[str]]:
    """Yield pages from the newest to the oldest, counted from the end: routers take the oldest, no place shifts."""
    last = -1
    while True:
        page: Any = await scripts.redis.lrange(keys.GATEWAY_JOBS, last - PAGE + 1, last)
        yield [str(each) for each in page]
        if len(page) < PAGE:
            return
        last -= PAGE - _OVERLAP


async def _indexed(scripts: Scripts, index: str) -> AsyncIterator[list[str]]:
    """Yield pages, the newest first: what is added meanwhile makes some come twice, but none is missed."""
    first = 0
    while page := await scripts.redis.zrange(index, first, first + PAGE - 1, desc=True):
        yield [str(each) for each in page]
        first += PAGE
