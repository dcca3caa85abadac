"""Queues of alerts, one per channel, and the cursor up to which events have become alerts."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from redis.asyncio.client import Pipeline

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.records import Entry

#: Alerts that wait for one channel, and events that are read at once.
MAX_WAITING: Final = 1_000
_BATCH: Final = 200


async def collect(scripts: Scripts, channels: Sequence[str], encode: Callable[[Entry], str | None]) -> None:
    """Queue the alerts of new events for every channel; `encode` returns None for an event without one.

    At the first start the cursor is the newest event: what happened before is not reported.
    """

    def queue(pipe: Pipeline, entries: list[Entry]) -> None:
        found = [alert for entry in entries if (alert := encode(entry))]
        for channel in channels if found else ():
            pipe.rpush(keys.alerts(channel), *found)
            pipe.ltrim(keys.alerts(channel), -MAX_WAITING, -1)

    start = await event_stream.last_cursor(scripts)
    await event_stream.consume(scripts, keys.ALERT_CURSOR, queue, most=_BATCH, start=start)


async def waiting(scripts: Scripts, channel: str, *, most: int) -> list[str]:
    found: Any = await scripts.redis.lrange(keys.alerts(channel), 0, most - 1)
    return list(found)


async def remove(scripts: Scripts, channel: str, alerts: Sequence[str]) -> None:
    """Remove these alerts and no others: another process may have removed them too, or a full queue shed some."""
    async with scripts.redis.pipeline(transaction=True) as pipe:
        for alert in alerts:
            pipe.lrem(keys.alerts(channel), 1, alert)
        await pipe.execute()
