"""Lasting troubles: queues of days, numbers of poor health, webhooks that fail for long, the server itself.

Each is one event and one alert.
"""

import json
from typing import Final

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.ids import Phone, SessionId
from wa_orchestrator.domain.messages.message import WAITING
from wa_orchestrator.domain.pacing.backlog import MAX_DAYS
from wa_orchestrator.domain.stream_events import EventType, Instant, LongQueue, PoorHealth, WebhookFailing
from wa_orchestrator.messages import queue_forecast
from wa_orchestrator.messages.session_pace import pace_of
from wa_orchestrator.orchestrator.notifications import server_troubles
from wa_orchestrator.store import records
from wa_orchestrator.store.events import lasting_troubles, webhooks
from wa_orchestrator.store.events.lasting_troubles import FoundTrouble, Troubles
from wa_orchestrator.store.messages import health_counts, message_counts

#: What may mend itself does not need a person before this time.
PATIENCE_MS: Final = 10 * 60_000
_INTERVAL_S: Final = 2.0

log = structlog.get_logger(__name__)


async def report_new(context: Context) -> float:
    """Report the troubles that are new; returns the seconds to wait."""
    now_ms = await context.scripts.now_ms()
    known = await lasting_troubles.names(context.scripts)
    found = {
        **await _long_queues(context, now_ms),
        **await _failing_webhooks(context, now_ms),
        **await _poor_numbers(context),
        **await server_troubles.find(context, known, PATIENCE_MS),
    }
    for name in await lasting_troubles.report(context.scripts, found):
        log.warning("trouble.began", name=name, kind=found[name].kind)
    return _INTERVAL_S


async def _long_queues(context: Context, now_ms: int) -> Troubles:
    scripts, settings = context.scripts, context.settings
    counts = await message_counts.by_status(scripts)
    waiting = sum(counts.get(status, 0) for status in WAITING)
    if waiting <= MAX_DAYS:
        return {}  # most of the time nothing waits: do not read every session
    linked = [each for each in await records.sessions(scripts) if each.phone and not each.removing]
    of_phones = {each.phone: each for each in linked}.values()
    # Where all that waits in the installation would leave in time, the queue is not counted: that takes six commands.
    sessions = [each for each in of_phones if waiting > MAX_DAYS * pace_of(settings, each, now_ms).per_day]
    backlogs = await queue_forecast.waiting_for_each(scripts, settings, sessions, now_ms)
    found = {}
    for session, backlog in zip(sessions, backlogs, strict=True):
        days = backlog.days_after_today(pace_of(settings, session, now_ms))
        if days > MAX_DAYS:
            details = json.dumps({"queued": backlog.total, "days": days})
            payload = LongQueue(session.id, session.phone, details)
            found[f"queue:{session.phone}"] = FoundTrouble(EventType.LONG_QUEUE, payload)
    return found


async def _poor_numbers(context: Context) -> Troubles:
    return {
        f"health:{phone}": FoundTrouble(
            EventType.SESSION_HEALTH_POOR,
            PoorHealth(SessionId(each.session), Phone(phone), each.signal, each.count, each.of),
        )
        for phone, each in (await health_counts.poor(context.scripts)).items()
    }


async def _failing_webhooks(context: Context, now_ms: int) -> Troubles:
    found = {}
    for webhook_id in await webhooks.every(context.scripts):
        since_ms = (await webhooks.state(context.scripts, webhook_id)).failing_since_ms
        if since_ms and since_ms < now_ms - PATIENCE_MS:
            failing = WebhookFailing(webhook_id, Instant(since_ms))
            found[f"webhook:{webhook_id}"] = FoundTrouble(EventType.WEBHOOK_FAILING, failing)
    return found
