"""Incoming messages, opt-outs by stop word, and account limits that WhatsApp reports."""

import json
from collections.abc import Awaitable, Callable
from functools import partial

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
from wa_orchestrator.orchestrator.workers import event_refusals
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import worker_events
from wa_orchestrator.store.events.worker_events import EventDelivery, Refusal
from wa_orchestrator.store.messages import contacts, open_messages, queues
from wa_orchestrator.store.messages.message_keys import Place
from wa_orchestrator.store.records import Session
from wa_orchestrator.timestamps import FOREVER_MS

OPTED_OUT = "OPTED_OUT"

log = structlog.get_logger(__name__)


async def on_message_received(
    context: Context, delivery: EventDelivery, event: WorkerEvent[IncomingMessage]
) -> Callable[[], Awaitable[None]] | None:
    """Handle MESSAGE_RECEIVED: store it and emit its event; returns what is left to do, for a stop word for example.

    Every step is idempotent: the worker repeats the event until all of them are done.
    """
    received, session = event.payload, delivery.session
    facts = await contacts.sender_facts(context.scripts, session, *_names(received))
    if await _is_archived(context, session, received, facts.now_ms):
        event_refusals.require_accepted(await worker_events.accept_ignored(context.scripts, delivery))
        return None
    word = _stop_word(context, received)
    message = contacts.Incoming(
        session,
        facts.our_phone,
        received.whatsapp_id,
        received.kind,
        facts.phone,
        facts.lid,
        received.group or "",
        _fields(received),
    )
    keep_ms = context.settings.body_retention_days * DAY_MS
    outcome = await contacts.receive(context.scripts, message, keep_ms=keep_ms, delivery=delivery, opts_out=word)
    if isinstance(outcome, Refusal):
        raise event_refusals.error(outcome)
    if isinstance(outcome, contacts.Received):
        log.info("message.received", session=session, kind=received.kind)
    recipient = facts.phone or f"lid:{facts.lid or _user(received.sender)}"
    return partial(_follow, context.scripts, message, recipient, word) if outcome.rest else None


async def _follow(scripts: Scripts, message: contacts.Incoming, recipient: str, word: str) -> None:
    """Do what follows from a private message: its sender is no new contact any more, or opts out."""
    if message.contact_phone:
        await contacts.reopen(scripts, message.phone, message.contact_phone)
        await _carry_opt_out_over(scripts, message.contact_phone, message.contact_lid)
    if word:
        await contacts.opt_out(scripts, recipient, word=word, via="reply", session=message.session, phone=message.phone)
        cancelled = await cancel_for(scripts, recipient)
        log.info("contact.opted_out", session=message.session, recipient=recipient, cancelled=cancelled)


async def on_message_undecryptable(
    context: Context, session: Session, event: WorkerEvent[UndecryptableMessage]
) -> None:
    """Handle MESSAGE_UNDECRYPTABLE: emit its event once, unless the message itself came meanwhile."""
    unread = event.payload
    facts = await contacts.sender_facts(context.scripts, session.id, *_names(unread))
    message = contacts.Incoming(
        session.id, session.phone, unread.whatsapp_id, "", facts.phone, facts.lid, unread.group or ""
    )
    keep_ms = context.settings.body_retention_days * DAY_MS
    if await contacts.report_undecryptable(context.scripts, message, reason=unread.reason, keep_ms=keep_ms):
        log.warning("message.undecryptable", session=session.id, reason=unread.reason)


async def on_identity_changed(context: Context, session: Session, event: WorkerEvent[IdentityChanged]) -> None:
    """Handle CONTACT_IDENTITY_CHANGED: whoever has the number now is a new contact."""
    told = event.payload
    names = {"contact_phone": _user(told.phone), "old_lid": _user(told.old_lid), "new_lid": _user(told.new_lid)}
    if await contacts.change_identity(context.scripts, session.phone, session=session.id, **names):
        log.warning("contact.identity_changed", session=session.id)


def _stop_word(context: Context, received: IncomingMessage) -> str:
    """Return the stop word that a message consists of, '' for any other. One in a group is not meant for us."""
    text = received.text or ""
    is_meant = received.group is None and opt_out.is_opt_out(text, context.settings.stop_words)
    return text.strip()[:40] if is_meant else ""


async def _is_archived(context: Context, session: str, received: IncomingMessage, now_ms: int) -> bool:
    """Whether an old message was taken in before. Only one that has been in Redis for a day is in the archive."""
    oldest_ms = now_ms - context.settings.archive_after_hours * HOUR_MS
    name = (session, received.whatsapp_id)
    return received.at_ms <= oldest_ms and name in await context.archive.incoming([name])


def _names(received: IncomingMessage | UndecryptableMessage) -> tuple[str, str]:
    """Return the sender's phone and LID as the worker knows them."""
    phone, lid = _user(received.phone or ""), _user(received.lid or "")
    if not phone and not lid:
        phone = _user(received.sender) if received.sender.endswith("@s.whatsapp.net") else ""
        lid = _user(received.sender) if received.sender.endswith("@lid") else ""
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


async def cancel_for(scripts: Scripts, recipient: str, counted: Callable[[str], bool] = lambda _: True) -> int:
    """Cancel all waiting messages to a recipient who opted out; returns how many of sessions that are `counted`."""
    ended: list[str] = []
    while found := await _cancel_found(scripts, recipient):
        ended += found
    return sum(map(counted, ended))


async def _cancel_found(scripts: Scripts, recipient: str) -> list[str]:
    """Cancel the waiting messages that are found now; returns the session of each."""
    found = [each async for each in open_messages.unended(scripts, keys.messages_to(recipient)) if each.to == recipient]
    outcomes = [
        await queues.cancel(scripts, Place(each.id, each.phone, each.session), reason=OPTED_OUT) for each in found
    ]
    ended = zip(found, outcomes, strict=True)
    return [each.session for each, outcome in ended if isinstance(outcome, queues.Ended)]


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
