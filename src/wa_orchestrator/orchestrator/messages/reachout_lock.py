"""Reach-out lock: a guess after a refusal (463), until WhatsApp itself reports the lock.

The worker asks WhatsApp after a refusal, and its report may overtake the nack. So the guess belongs to the event of the
refusal, which comes before that report; the nack, which has no place among the events, guesses only if it is first.
"""

from wa_orchestrator.context import Context
from wa_orchestrator.domain.workers.worker_events import Payload, WorkerEvent
from wa_orchestrator.store.messages import contacts, outbox
from wa_orchestrator.store.messages.contacts import ReportNumber
from wa_orchestrator.store.records import Message, Session

#: After a 463, new contacts wait this long unless WhatsApp reports an end: asking takes the worker a moment.
GUESSED_LOCK_MS = 600_000


def report_number(session: Session, event: WorkerEvent[Payload]) -> ReportNumber | None:
    """Return an event's place among the reports of its worker; None when the worker gave no sequence."""
    return None if event.sequence is None else ReportNumber(event.epoch or session.epoch, event.sequence)


async def refused_by_event(context: Context, session: Session, message: Message, event: WorkerEvent[Payload]) -> None:
    await outbox.note_refusal(context.scripts, message.id, message.attempts)
    await _guess(context, session, report_number(session, event))


async def refused_by_nack(context: Context, session: Session, message: Message) -> None:
    """Handle the nack of a refusal (463), whose event may have come before."""
    if not await outbox.is_refusal_noted(context.scripts, message.id, message.attempts):
        await _guess(context, session, None)


async def _guess(context: Context, session: Session, report: ReportNumber | None) -> None:
    until_ms = await context.scripts.now_ms() + int(context.settings.scaled(GUESSED_LOCK_MS))
    await contacts.limit(
        context.scripts, session.phone, "lock", session=session.id, until_ms=until_ms, source="guessed", report=report
    )
