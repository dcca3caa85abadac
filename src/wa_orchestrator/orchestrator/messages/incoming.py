"""Incoming messages, opt-outs by stop word, and account limits that WhatsApp reports."""

import json

import structlog

from wa_orchestrator.archive.archiver import HOUR_MS
from wa_orchestrator.context import Context
from wa_orchestrator.domain import content, opt_out
from wa_orchestrator.domain.pacing.limits import DAY_MS
from wa_orchestrator.domain.worker_events import (
    AccountLimits,
    IdentityChanged,
    IncomingMessage,
    UndecryptableMessage,
    WorkerEvent,
)
from wa_orchestrator.orchestrator.messages import reachout_lock
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import contacts, open_messages, queues
from wa_orchestrator.store.messages.message_keys import Place
from wa_orchestrator.store.records import Session
from wa_orchestrator.timestamps import FOREVER_MS

OPTED_OUT = "OPTED_OUT"

log = structlog.get_logger(__name__)


async def on_message_received(context: Context, session: Session, event: WorkerEvent[IncomingMessage]) -> None:
    """Handle MESSAGE_RECEIVED: store it, emit its event, and opt the sender out if it is a stop word.

    Every step is idempotent: the worker repeats the event until all of them are done.
    """
    received = event.payload
    scripts = context.scripts
    phone, lid = await _names(scripts, received)
    kind, group = received.kind, received.group or ""
    message = contacts.Incoming(
        session.id, session.phone, received.whatsapp_id, kind, phone, lid, group, _fields(received)
    )
    keep_ms = context.settings.body_retention_days * DAY_MS
    if await _is_archived(context, session, event):
        return
    if await contacts.receive(scripts, message, keep_ms=keep_ms):
        log.info("message.received", session=session.id, kind=received.kind)
    if received.group is not None:
        return  # a stop word in a group is not meant for us
    if phone:
        await contacts.reopen(scripts, session.phone, phone)
        await _carry_opt_out_over(scripts, phone, lid)
    if received.text and opt_out.is_opt_out(received.text, context.settings.stop_words):
        recipient, word = phone or f"lid:{lid or _user(received.sender)}", received.text.strip()[:40]
        await contacts.opt_out(scripts, recipient, word=word, via="reply", session=session.id, phone=session.phone)
        cancelled = await cancel_for(scripts, recipient)
        log.info("contact.opted_out", session=session.id, recipient=recipient, cancelled=cancelled)


async def on_message_undecryptable(
    context: Context, session: Session, event: WorkerEvent[UndecryptableMessage]
) -> None:
    """Handle MESSAGE_UNDECRYPTABLE: emit its event once, unless the message itself came meanwhile."""
    unread = event.payload
    phone, lid = await _names(context.scripts, unread)
    message = contacts.Incoming(session.id, session.phone, unread.whatsapp_id, "", phone, lid, unread.group or "")
    keep_ms = context.settings.body_retention_days * DAY_MS
    if await contacts.report_undecryptable(context.scripts, message, reason=unread.reason, keep_ms=keep_ms):
        log.warning("message.undecryptable", session=session.id, reason=unread.reason)


async def on_identity_changed(context: Context, session: Session, event: WorkerEvent[IdentityChanged]) -> None:
    """Handle CONTACT_IDENTITY_CHANGED: whoever has the number now is a new contact."""
    told = event.payload
    names = {"contact_phone": _user(told.phone), "old_lid": _user(told.old_lid), "new_lid": _user(told.new_lid)}
    if await contacts.change_identity(context.scripts, session.phone, session=session.id, **names):
        log.warning("contact.identity_changed", session=session.id)


async def _is_archived(context: Context, session: Session, event: WorkerEvent[IncomingMessage]) -> bool:
    """Whether an old message was taken in before. Only one that has been in Redis for a day is in the archive."""
    oldest_ms = await context.scripts.now_ms() - context.settings.archive_after_hours * HOUR_MS
    name = (session.id, event.payload.whatsapp_id)
    return event.payload.at_ms <= oldest_ms and name in await context.archive.incoming([name])


async def _names(scripts: Scripts, received: IncomingMessage | UndecryptableMessage) -> tuple[str, str]:
    """Return the sender's phone and LID; one that the worker did not know may be known from before."""
    phone, lid = _user(received.phone or ""), _user(received.lid or "")
    if not phone and not lid:
        phone = _user(received.sender) if received.sender.endswith("@s.whatsapp.net") else ""
        lid = _user(received.sender) if received.sender.endswith("@lid") else ""
    if not phone and lid:
        phone = await contacts.phone_of_lid(scripts, lid)
    if not lid and phone:
        lid = await contacts.lid_of_phone(scripts, phone)
    return phone, lid


def _user(jid: str) -> str:
    """Return the digits of a JID, without the device and the server."""
    return jid.partition("@")[0].partition(":")[0].removeprefix("+")


def _fields(received: IncomingMessage) -> dict[str, str | int]:
    fields: dict[str, str | int] = {"from": received.sender, "at": received.at_ms}
    if received.push_name:
        fields["push_name"] = received.push_name
    if received.text is not None:
        fields["text"] = received.text
    if received.media is not None:
        fields["media"] = json.dumps(received.media)
    if received.location is not None:
        fields["location"] = json.dumps(content.encode(received.location)["location"])
    return fields


async def _carry_opt_out_over(scripts: Scripts, phone: str, lid: str) -> None:
    """Apply an opt-out that came when only the LID was known to the phone too."""
    if lid and await contacts.opt_out_of(scripts, f"lid:{lid}"):
        await contacts.opt_out(scripts, phone, word="", via="reply")
        await cancel_for(scripts, phone)


async def cancel_for(scripts: Scripts, recipient: str) -> int:
    """Cancel all waiting messages to a recipient who opted out; returns how many."""
    ended = 0
    while count := await _cancel_found(scripts, recipient):
        ended += count
    return ended


async def _cancel_found(scripts: Scripts, recipient: str) -> int:
    found = [each async for each in open_messages.unended(scripts, keys.messages_to(recipient)) if each.to == recipient]
    outcomes = [
        await queues.cancel(scripts, Place(each.id, each.phone, each.session), reason=OPTED_OUT) for each in found
    ]
    return sum(isinstance(outcome, queues.Ended) for outcome in outcomes)


async def on_account_limits(context: Context, session: Session, event: WorkerEvent[AccountLimits]) -> None:
    """Handle ACCOUNT_LIMITS: messages to new contacts wait while WhatsApp locks the phone for them."""
    limits = event.payload
    if not session.phone:
        return
    lock = limits.reachout_lock
    until_ms = (lock.ends_at_ms or FOREVER_MS) if lock.active else 0
    report = reachout_lock.report_number(session, event)
    changed = await contacts.lock(
        context.scripts, session.phone, session=session.id, until_ms=until_ms, source="reported", report=report
    )
    if changed:
        log.warning("session.reachout_lock_changed", session=session.id, active=lock.active, kind=lock.type)
