"""Lasting troubles: queues that take days, and webhooks that fail for long. Each becomes one event and one alert."""

import json
from typing import Final

from wa_orchestrator.context import Context
from wa_orchestrator.domain.message import WAITING
from wa_orchestrator.domain.pacing.backlog import MAX_DAYS
from wa_orchestrator.domain.stream_events import EventType, Instant, LongQueue, WebhookFailing
from wa_orchestrator.messages import queue_forecast
from wa_orchestrator.messages.session_pace import pace_of
from wa_orchestrator.store import records
from wa_orchestrator.store.events import lasting_troubles, webhooks
from wa_orchestrator.store.events.lasting_troubles import Troubles
from wa_orchestrator.store.messages import message_counts

#: What may mend itself does not need a person before this time.
PATIENCE_MS: Final = 10 * 60_000
_INTERVAL_S: Final = 5.0


async def report_new(context: Context) -> float:
    """Report the troubles that are new; returns the seconds to wait."""
    now_ms = await context.scripts.now_ms()
    found = {**await _long_queues(context, now_ms), **await _failing_webhooks(context, now_ms)}
    await lasting_troubles.report(context.scripts, found)
    return _INTERVAL_S


async def _long_queues(context: Context, now_ms: int) -> Troubles:
    scripts, settings = context.scripts, context.settings
    counts = await message_counts.by_status(scripts)
    if not any(counts.get(status) for status in WAITING):
        return {}  # most of the time nothing waits: do not read every session
    linked = [each for each in await records.sessions(scripts) if each.phone and not each.removing]
    sessions = list({each.phone: each for each in linked}.values())
    backlogs = await queue_forecast.waiting_for_each(scripts, settings, sessions, now_ms)
    found = {}
    for session, backlog in zip(sessions, backlogs, strict=True):
        days = backlog.days_after_today(pace_of(settings, session, now_ms))
        if days > MAX_DAYS:
            details = json.dumps({"queued": backlog.total, "days": days})
            found[f"queue:{session.phone}"] = EventType.LONG_QUEUE, LongQueue(session.id, session.phone, details)
    return found


async def _failing_webhooks(context: Context, now_ms: int) -> Troubles:
    found = {}
    for webhook_id in await webhooks.every(context.scripts):
        since_ms = (await webhooks.state(context.scripts, webhook_id)).failing_since_ms
        if since_ms and since_ms < now_ms - PATIENCE_MS:
            failing = WebhookFailing(webhook_id, Instant(since_ms))
            found[f"webhook:{webhook_id}"] = EventType.WEBHOOK_FAILING, failing
    return found
