"""Receipts of our messages: sent, delivered, read. Any worker of their session or phone may report them, late."""

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.message import is_whatsapp_id
from wa_orchestrator.domain.message_failures import Failure
from wa_orchestrator.domain.worker_events import MessageFailed, MessageReceipt, MessageSent, Receipt, WorkerEvent
from wa_orchestrator.errors import Refused
from wa_orchestrator.messages import message_lookup
from wa_orchestrator.messages.session_pace import day_of
from wa_orchestrator.orchestrator.messages import reachout_lock, retry_policy
from wa_orchestrator.store import records
from wa_orchestrator.store.messages import outbox
from wa_orchestrator.store.outcomes import Unknown
from wa_orchestrator.store.records import Session

_STATUS = {Receipt.DELIVERED: "delivered", Receipt.READ: "read", Receipt.PLAYED: "read"}

log = structlog.get_logger(__name__)


def message_id_of(whatsapp_id: str) -> str | None:
    """Return our id of the message with this WhatsApp id; None for a message that we did not send."""
    return f"m_{whatsapp_id[4:].lower()}" if is_whatsapp_id(whatsapp_id) else None


async def record(
    context: Context, reporter: str, message_id: str, *, status: str, whatsapp_id: str, at_ms: int
) -> outbox.Became | outbox.Already | Unknown | outbox.Mismatch:
    """Record that a message is `sent`, `delivered` or `read`, as the session `reporter` says.

    Raises `Refused` if the message is neither that session's nor its phone's.
    """
    place = await message_lookup.restored(context.scripts, context.archive, message_id)
    if place is None:
        return Unknown()
    session = await records.session(context.scripts, place.session)
    now_ms = await context.scripts.now_ms()
    day = day_of(context.settings, session, now_ms)
    outcome = await outbox.ack(
        context.scripts, place, reporter=reporter, status=status, whatsapp_id=whatsapp_id, at_ms=at_ms, day=day
    )
    if isinstance(outcome, outbox.Stranger):
        raise not_yours(message_id, reporter)
    return outcome


def not_yours(message_id: str, reporter: str) -> Refused:
    """Return the error for a worker that speaks for a message of another session."""
    log.warning("message.reported_by_stranger", session=reporter, message=message_id)
    return Refused("NOT_YOUR_MESSAGE", f"{message_id} belongs to another session.", 403)


async def on_message_sent(context: Context, session: Session, event: WorkerEvent[MessageSent]) -> None:
    """Handle MESSAGE_SENT: WhatsApp's server accepted a message."""
    sent = event.payload
    outcome = await record(
        context, session.id, sent.message_id, status="sent", whatsapp_id=sent.whatsapp_id, at_ms=event.at_ms
    )
    if isinstance(outcome, outbox.Mismatch | Unknown):
        log.warning("receipt.unmatched", session=session.id, message=sent.message_id, outcome=type(outcome).__name__)


async def on_message_status(context: Context, session: Session, event: WorkerEvent[MessageReceipt]) -> None:
    """Handle MESSAGE_STATUS: delivered, or read. What the phone's owner wrote on the phone is ignored."""
    receipt = event.payload
    message_id = message_id_of(receipt.whatsapp_id)
    if message_id is not None:
        status = _STATUS[receipt.status]
        await record(
            context, session.id, message_id, status=status, whatsapp_id=receipt.whatsapp_id, at_ms=receipt.at_ms
        )


async def on_message_failed(context: Context, session: Session, event: WorkerEvent[MessageFailed]) -> None:
    """Handle MESSAGE_FAILED: log it, and detect a reach-out lock.

    The message itself changes only by the worker's nack: an event may arrive long after its attempt, when the next
    attempt is already under way, and must not end that.
    """
    failed = event.payload
    message = await records.message(context.scripts, failed.message_id)
    if message is not None and message.session != session.id and message.phone != session.phone:
        raise not_yours(message.id, session.id)
    log.warning("message.attempt_failed", session=session.id, message=failed.message_id, code=failed.code)
    is_locked = retry_policy.failure_from(failed.code, retryable=False) is Failure.REACHOUT_LOCKED
    if is_locked and message is not None and message.session == session.id:
        await reachout_lock.refused_by_event(context, session, message, event)
