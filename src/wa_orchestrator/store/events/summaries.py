"""The day whose summary was emitted last."""

from typing import Any

from wa_orchestrator.domain.stream_events import DailySummary, EventType
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import event_stream


async def last_day(scripts: Scripts) -> str | None:
    """Return the local day (`2025-01-31`) of the last summary; None before the first."""
    found: Any = await scripts.redis.get(keys.SUMMARY_DAY)
    return None if found is None else str(found)


async def emit(scripts: Scripts, day: str, details: str) -> None:
    """Emit the summary of a day and record the day, in one step; without details only record it."""
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.set(keys.SUMMARY_DAY, day)
        if details:
            event_stream.emit_in(pipe, EventType.SUMMARY_DAILY, DailySummary(details), at_ms=await scripts.now_ms())
        await pipe.execute()
