"""Daily summary: one event a day, at a fixed local time, that becomes an alert."""

import json
from datetime import datetime
from zoneinfo import ZoneInfo

from wa_orchestrator.context import Context
from wa_orchestrator.domain.jobs import SUMMARY_AT, Job
from wa_orchestrator.domain.sessions.session import State
from wa_orchestrator.domain.stream_events import DailySummary, EventType
from wa_orchestrator.store import jobs, records
from wa_orchestrator.store.events import activity, event_stream, summaries
from wa_orchestrator.store.jobs import JobRun
from wa_orchestrator.store.messages import message_counts

_INTERVAL_S = 20.0
_HOURS = 24


async def emit_when_due(context: Context) -> float:
    """Emit the summary of each day once. A server that was down at the time emits it when it is back."""
    now_ms = await context.scripts.now_ms()
    local = datetime.fromtimestamp(now_ms / 1000, tz=ZoneInfo(context.settings.timezone))
    today = local.date().isoformat()
    last = await summaries.last_day(context.scripts)
    if last is None or (last != today and local.time() >= SUMMARY_AT):
        # A new installation has no day to sum up.
        details = json.dumps(await _details(context, now_ms)) if last is not None else ""
        await summaries.emit(context.scripts, today, details)
        if details:
            await jobs.note(context.scripts, Job.SUMMARY, JobRun(now_ms, await context.scripts.now_ms()))
    return _INTERVAL_S


async def emit_now(context: Context) -> None:
    """Emit a summary of the last day that somebody asked for. The daily one comes at its time all the same."""
    now_ms = await context.scripts.now_ms()
    details = json.dumps(await _details(context, now_ms))
    await event_stream.emit(context.scripts, EventType.SUMMARY_DAILY, DailySummary(details))


async def _details(context: Context, now_ms: int) -> dict[str, int]:
    found = await records.sessions(context.scripts)
    counts = await activity.hours(context.scripts)
    this_hour = now_ms // activity.HOUR_MS
    hours = range(this_hour - _HOURS + 1, this_hour + 1)
    return {
        "sessions": len(found),
        "connected": sum(session.status is State.CONNECTED for session in found),
        "sent": sum(counts.get(f"{hour}:sent", 0) for hour in hours),
        "failed": sum(counts.get(f"{hour}:failed", 0) for hour in hours),
        "queued": (await message_counts.by_status(context.scripts)).get("queued", 0),
    }
