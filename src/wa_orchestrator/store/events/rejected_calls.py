"""Which events were looked at for calls that are to be answered with a text."""

from typing import Any

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.records import Entry


async def unread_events(scripts: Scripts, *, most: int) -> list[Entry]:
    """Return the events that come next; the first call begins with what comes after it."""
    cursor: Any = await scripts.redis.get(keys.CALL_REPLIES_CURSOR)
    if cursor is None:
        await events_read(scripts, await event_stream.last_cursor(scripts))
        return []
    return await event_stream.read(scripts, after=str(cursor), most=most)


async def events_read(scripts: Scripts, cursor: str) -> None:
    """Remember that the calls up to this event are answered."""
    await scripts.redis.set(keys.CALL_REPLIES_CURSOR, cursor)
