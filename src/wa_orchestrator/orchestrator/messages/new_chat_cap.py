"""New-chat cap: WhatsApp's allowance of new chats is used up, as it reports or as a refusal (475) tells.

Messages to new contacts wait until WhatsApp's cycle ends; where it names no end, until the session's next day after the
refusal or report, not after its arrival: one from before midnight says nothing about the day after. Reports
and refusals are ordered as those of the reach-out lock. A refusal while a cap is known changes nothing.
"""

from wa_orchestrator.context import Context
from wa_orchestrator.domain.pacing.hours import day_bounds_ms
from wa_orchestrator.domain.workers.worker_events import NewChatCapReport, Payload, WorkerEvent
from wa_orchestrator.messages.session_pace import zone_of
from wa_orchestrator.orchestrator.messages.reachout_lock import report_number
from wa_orchestrator.store.messages import contacts, outbox
from wa_orchestrator.store.messages.contacts import ReportNumber
from wa_orchestrator.store.records import Message, Session


async def reported(context: Context, session: Session, cap: NewChatCapReport, event: WorkerEvent[Payload]) -> bool:
    """Record what WhatsApp reports; False when nothing changed."""
    now_ms = await context.scripts.now_ms()
    said_ms = min(event.at_ms, now_ms)
    until_ms = cap.blocked_until_ms(now_ms, day_ends_ms=_day_end_ms(context, session, said_ms))
    report = report_number(session, event)
    return await contacts.limit(
        context.scripts, session.phone, "cap", session=session.id, until_ms=until_ms, source="reported", report=report
    )


async def refused_by_event(context: Context, session: Session, message: Message, event: WorkerEvent[Payload]) -> None:
    await outbox.note_refusal(context.scripts, message.id, message.attempts)
    # The worker's clock may be wrong, but it was refused after it had claimed the message.
    refused_ms = max(event.at_ms, message.claimed_at)
    await _guess(context, session, refused_ms, report_number(session, event))


async def refused_by_nack(context: Context, session: Session, message: Message) -> None:
    """Handle the nack of a refusal (475), whose event may have come before."""
    if not await outbox.is_refusal_noted(context.scripts, message.id, message.attempts):
        await _guess(context, session, message.claimed_at, None)


async def _guess(context: Context, session: Session, refused_ms: int, report: ReportNumber | None) -> None:
    now_ms = await context.scripts.now_ms()
    until_ms = _day_end_ms(context, session, min(refused_ms, now_ms))
    await contacts.limit(
        context.scripts, session.phone, "cap", session=session.id, until_ms=until_ms, source="guessed", report=report
    )


def _day_end_ms(context: Context, session: Session, now_ms: int) -> int:
    return day_bounds_ms(now_ms, zone_of(context.settings, session))[1]
