"""Receipts of our messages: sent, delivered, read. Any worker of their session or phone may report them, late."""

from dataclasses import replace

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.messages.failures import Failure
from wa_orchestrator.domain.messages.message import message_id_of
from wa_orchestrator.domain.workers.worker_events import (
    MessageFailed,
    MessageReceipt,
    MessageSent,
    Receipt,
    WorkerEvent,
)
from wa_orchestrator.errors import Refused
from wa_orchestrator.messages import message_lookup
from wa_orchestrator.messages.session_pace import day_in
from wa_orchestrator.orchestrator.messages import new_chat_cap, reachout_lock, retry_policy
from wa_orchestrator.orchestrator.workers import event_refusals
from wa_orchestrator.store import records
from wa_orchestrator.store.events import worker_events
from wa_orchestrator.store.events.worker_events import EventDelivery, Refusal
from wa_orchestrator.store.messages import outbox
from wa_orchestrator.store.outcomes import Unknown
from wa_orchestrator.store.records import Session

_STATUS = {Receipt.DELIVERED: "delivered", Receipt.READ: "read", Receipt.PLAYED: "read"}

log = structlog.get_logger(__name__)


async def record(
    context: Context, message_id: str, receipt: outbox.MessageReport, *, delivery: EventDelivery | None = None
) -> outbox.Became | outbox.Already | Unknown | outbox.Mismatch:
    """Record what a session says about a message, and note the worker's event that says so, if there is one.

    Raises `Refused` if the message is neither that session's nor its phone's, or if the event is not to be handled.
    """
    outcome = await _ack(context, message_id, receipt, delivery)
    if isinstance(outcome, Refusal):
        raise event_refusals.error(outcome)
    if isinstance(outcome, Unknown) and delivery is not None:
        event_refusals.require_accepted(await worker_events.accept_ignored(context.scripts, delivery))
    if isinstance(outcome, outbox.Stranger):
        raise not_yours(message_id, receipt.reporter)
    return outcome


async def _ack(
    context: Context, message_id: str, receipt: outbox.MessageReport, delivery: EventDelivery | None
) -> outbox.Became | outbox.Already | Unknown | outbox.Mismatch | outbox.Stranger | Refusal:
    scripts, reporter = context.scripts, receipt.reporter
    facts = await outbox.receipt_facts(scripts, message_id, reporter=reporter)
    if facts.place is None and await message_lookup.restored(scripts, context.archive, message_id):
        facts = await outbox.receipt_facts(scripts, message_id, reporter=reporter)
    if (place := facts.place) is None:
        return Unknown()
    zone = facts.timezone
    if place.session != reporter:
        owner = await records.session(scripts, place.session)
        zone = owner.timezone if owner else ""
    told = replace(receipt, at_ms=min(receipt.at_ms or facts.now_ms, facts.now_ms))
    day = day_in(context.settings, zone, facts.now_ms)
    return await outbox.ack(scripts, place, told, to=facts.to, day=day, delivery=delivery)


def not_yours(message_id: str, reporter: str) -> Refused:
    """Return the error for a worker that speaks for a message of another session."""
    log.warning("message.reported_by_stranger", session=reporter, message=message_id)
    return Refused("NOT_YOUR_MESSAGE", f"{message_id} belongs to another session.", 403)


async def on_message_sent(context: Context, delivery: EventDelivery, event: WorkerEvent[MessageSent]) -> None:
    """Handle MESSAGE_SENT: WhatsApp's server accepted a message."""
    sent = event.payload
    receipt = outbox.MessageReport(delivery.session, "sent", sent.whatsapp_id, event.at_ms)
    outcome = await record(context, sent.message_id, receipt, delivery=delivery)
    if isinstance(outcome, outbox.Mismatch | Unknown):
        log.warning(
            "receipt.unmatched", session=delivery.session, message=sent.message_id, outcome=type(outcome).__name__
        )


async def on_message_status(context: Context, delivery: EventDelivery, event: WorkerEvent[MessageReceipt]) -> None:
    """Handle MESSAGE_STATUS: delivered, or read. What the phone's owner wrote on the phone is ignored."""
    told = event.payload
    message_id = message_id_of(told.whatsapp_id)
    if message_id is None:
        event_refusals.require_accepted(await worker_events.accept_ignored(context.scripts, delivery))
        return
    receipt = outbox.MessageReport(delivery.session, _STATUS[told.status], told.whatsapp_id, told.at_ms)
    await record(context, message_id, receipt, delivery=delivery)


async def on_message_failed(context: Context, session: Session, event: WorkerEvent[MessageFailed]) -> None:
    """Handle MESSAGE_FAILED: log it, and detect WhatsApp's limits on new contacts.

    The message itself changes only by the worker's nack: an event may arrive long after its attempt, when the next
    attempt is already under way, and must not end that.
    """
    failed = event.payload
    message = await records.message(context.scripts, failed.message_id)
    if message is not None and message.session != session.id and message.phone != session.phone:
        raise not_yours(message.id, session.id)
    log.warning("message.attempt_failed", session=session.id, message=failed.message_id, code=failed.code)
    if message is None or message.session != session.id:
        return
    match retry_policy.failure_from(failed.code, retryable=False):
        case Failure.REACHOUT_LOCKED:
            await reachout_lock.refused_by_event(context, session, message, event)
        case Failure.NEW_CHAT_CAP:
            await new_chat_cap.refused_by_event(context, session, message, event)
