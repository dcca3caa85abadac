"""Incoming messages, opt-outs by stop word, and account limits that WhatsApp reports."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial

import structlog

from wa_orchestrator.archive.archiver import HOUR_MS
from wa_orchestrator.context import Context
from wa_orchestrator.domain.ids import Phone, SessionId
from wa_orchestrator.domain.messages import content, incoming, opt_out, thumbnail
from wa_orchestrator.domain.messages.incoming import AMENDMENTS, Author, IncomingKind, encode, may_amend, parts_of
from wa_orchestrator.domain.messages.message import message_id_of
from wa_orchestrator.domain.pacing.limits import DAY_MS
from wa_orchestrator.domain.stream_events import CallReported, EventType
from wa_orchestrator.domain.workers.worker_events import (
    AccountLimits,
    Call,
    CallStatus,
    IdentityChanged,
    IncomingMessage,
    SentElsewhere,
    UndecryptableMessage,
    WorkerEvent,
)
from wa_orchestrator.messages import message_lookup, received_files
from wa_orchestrator.orchestrator.messages import new_chat_cap, opt_outs, reachout_lock, written_contacts
from wa_orchestrator.orchestrator.workers import event_refusals
from wa_orchestrator.store.events import worker_events
from wa_orchestrator.store.events.worker_events import EventDelivery, Refusal
from wa_orchestrator.store.messages import contacts
from wa_orchestrator.store.records import Session
from wa_orchestrator.timestamps import FOREVER_MS

#: Kinds that are no new messages have events of their own.
_EVENTS = {IncomingKind.EDIT: EventType.MESSAGE_EDITED, IncomingKind.DELETION: EventType.MESSAGE_DELETED}
#: What is stored of a message besides its text, file and location.
_PARTS = (
    "contacts", "poll", "vote", "target", "choice", "reply_to", "mentions", "album", "forwarded", "view_once", "ad",
    "username", "group_name",
)  # fmt: skip

_LONGEST_NAME = 100

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
    if not await _may_amend(context, session, received, facts):
        event_refusals.require_accepted(await worker_events.accept_ignored(context.scripts, delivery))
        log.warning("message.amendment_forged", session=session, kind=received.kind)
        return None
    word = _stop_word(context, received)
    message = _stored(context, session, facts, received, await _thumbnail(context, session, received))
    keep_ms = context.settings.body_retention_days * DAY_MS
    outcome = await contacts.receive(context.scripts, message, keep_ms=keep_ms, delivery=delivery, opts_out=word)
    if isinstance(outcome, Refusal):
        raise event_refusals.error(outcome)
    if isinstance(outcome, contacts.Received):
        log.info("message.received", session=session, kind=received.kind)
    is_new = isinstance(outcome, contacts.Received)
    return partial(_follow, context, message, _name(facts, received), word, is_new=is_new) if outcome.rest else None


async def _follow(context: Context, message: contacts.Incoming, recipient: str, word: str, *, is_new: bool) -> None:
    """Do what follows from a message: its sender is no new contact any more, has another name, or opts out."""
    if is_new:  # one that comes again may be older than what others decided since
        await written_contacts.follow(context, message)
    if message.group or message.is_ours:
        await contacts.reopen(context.scripts, message.phone, recipient, by="name")
    else:
        await contacts.reopen(context.scripts, message.phone, recipient, by="writing")
    where = {"session": message.session, "phone": message.phone}
    if word:
        await opt_outs.report(context, recipient, word=word, **where)
    else:
        await opt_outs.carry_over(context, message.contact_phone, message.contact_lid, **where)


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
    """Handle CONTACT_IDENTITY_CHANGED: the person who has the number now is a new contact."""
    told = event.payload
    names = {"contact_phone": _user(told.phone), "old_lid": _user(told.old_lid), "new_lid": _user(told.new_lid)}
    is_proven = await written_contacts.may_report_new_owner(
        context, session.phone, names["contact_phone"], names["old_lid"]
    )
    changed = await contacts.change_identity(
        context.scripts, session.phone, session=session.id, is_proven=is_proven, **names
    )
    if changed:
        log.warning("contact.identity_changed", session=session.id)
    await contacts.reopen(context.scripts, session.phone, names["contact_phone"], by="name")
    where = {"session": session.id, "phone": session.phone}
    await opt_outs.carry_over(context, names["contact_phone"], names["new_lid"], **where)


async def on_sent_elsewhere(context: Context, session: Session, event: WorkerEvent[SentElsewhere]) -> None:
    """Handle MESSAGE_SENT_ELSEWHERE: the owner wrote from the phone, or from a device that is not ours.

    One that another session of the same phone sent is reported as such, and is no news.
    """
    sent = event.payload
    ours = message_id_of(sent.whatsapp_id)
    if ours and await message_lookup.message(context.scripts, context.archive, ours):
        return
    facts = await contacts.sender_facts(context.scripts, session.id, *_names(sent))
    if await _is_archived(context, session.id, sent, facts.now_ms):
        return
    counts_at_ms = 0 if sent.kind in AMENDMENTS else sent.at_ms
    stored = _stored(context, session.id, facts, sent, await _thumbnail(context, session.id, sent))
    message = replace(stored, is_ours=True, counts_at_ms=counts_at_ms, name=stored.name if stored.group else "")
    if message.event is EventType.MESSAGE_RECEIVED:
        message = replace(message, event=EventType.MESSAGE_SENT_ELSEWHERE)
    keep_ms = context.settings.body_retention_days * DAY_MS
    outcome = await contacts.receive(context.scripts, message, keep_ms=keep_ms)
    if isinstance(outcome, contacts.Received):
        log.info("message.sent_elsewhere", session=session.id, kind=sent.kind)
    if not isinstance(outcome, Refusal) and outcome.rest:
        is_new = isinstance(outcome, contacts.Received)
        await _follow(context, message, _name(facts, sent), "", is_new=is_new)


async def on_call(context: Context, session: Session, event: WorkerEvent[Call]) -> None:
    """Handle CALL: somebody calls, or a call has ended."""
    call = event.payload
    facts = await contacts.sender_facts(context.scripts, session.id, *_names(call))
    ended = call.status is not CallStatus.OFFERED
    reported = CallReported(
        SessionId(session.id), Phone(session.phone), call.call_id, "true" if call.video else "false",
        Phone(facts.phone), facts.lid, outcome=str(call.status) if ended else None, group=call.group,
    )  # fmt: skip
    kind = EventType.CALL_ENDED if ended else EventType.CALL_RECEIVED
    keep_ms = context.settings.body_retention_days * DAY_MS
    if await contacts.report_call(context.scripts, kind, reported, keep_ms=keep_ms):
        log.info(str(kind), session=session.id)


def _stored(
    context: Context, session: str, facts: contacts.SenderFacts, received: IncomingMessage, beside: Mapping[str, object]
) -> contacts.Incoming:
    kind, group = received.kind, received.group or ""
    is_fetched = received.media is not None and context.settings.media_fetch == "at_arrival"
    return contacts.Incoming(
        session, facts.our_phone, received.whatsapp_id, kind, facts.phone, facts.lid, group, _fields(received, beside),
        event=_EVENTS.get(kind, EventType.MESSAGE_RECEIVED),
        due_file=incoming.id_of(session, received.whatsapp_id) if is_fetched else "",
        name=_one_line((received.group_name if group else received.push_name) or ""),
        target=received.target.whatsapp_id if received.target else "",
    )  # fmt: skip


async def _thumbnail(context: Context, session: str, received: IncomingMessage) -> Mapping[str, object]:
    """Keep the small picture that came with a message; return the part that says so.

    Before the message is stored: clients may ask for the picture as soon as they get the event.
    """
    may_have_one = received.kind not in AMENDMENTS and not received.view_once
    jpeg = thumbnail.decode(received.thumbnail or "") if may_have_one else None
    message_id = incoming.id_of(session, received.whatsapp_id)
    is_kept = jpeg is not None and await received_files.keep_thumbnail(context.settings, message_id, jpeg)
    return {"has_thumbnail": is_kept}


def _one_line(name: str) -> str:
    """Return a name that a person chose, without control characters and not longer than is shown."""
    return "".join(each if each.isprintable() else " " for each in name).strip()[:_LONGEST_NAME]


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


async def _may_amend(context: Context, session: str, received: IncomingMessage, facts: contacts.SenderFacts) -> bool:
    """Whether the message that an edit or a deletion names is its sender's to change."""
    if received.kind not in _EVENTS or received.target is None:
        return True
    author = await _author_of(context, session, received.target.whatsapp_id)
    return may_amend(received.kind, Author(facts.phone, facts.lid), author, received.group)


async def _author_of(context: Context, session: str, whatsapp_id: str) -> Author | None:
    both = (context.scripts, context.archive)
    ours = message_id_of(whatsapp_id)
    if ours and await message_lookup.message(*both, ours):
        return Author(is_us=True)
    known = await message_lookup.incoming(*both, session, whatsapp_id)
    if known is None:
        return None
    return Author(known.get("contact_phone", ""), known.get("contact_lid", ""), known.get("direction") == "out")


def _names(received: IncomingMessage | UndecryptableMessage | Call) -> tuple[str, str]:
    """Return the sender's phone and LID as the worker knows them."""
    phone, lid = _user(received.phone or ""), _user(received.lid or "")
    if not phone and not lid:
        phone = _user(received.sender) if received.sender.endswith("@s.whatsapp.net") else ""
        lid = _user(received.sender) if received.sender.endswith("@lid") else ""
    return phone, lid


def _name(facts: contacts.SenderFacts, received: IncomingMessage) -> str:
    """Return the name of who sent a message: the phone, or `lid:…` while only that is known."""
    return facts.phone or f"lid:{facts.lid or _user(received.sender)}"


def _user(jid: str) -> str:
    """Return the digits of a JID, without the device and the server."""
    return jid.partition("@")[0].partition(":")[0].removeprefix("+")


def _fields(received: IncomingMessage, beside: Mapping[str, object]) -> dict[str, str | int]:
    fields: dict[str, str | int] = {"from": received.sender, "at": received.at_ms}
    if received.push_name:
        fields["push_name"] = received.push_name
    if received.text is not None:
        fields["text"] = received.text
    if received.media is not None:
        fields["media"] = json.dumps(encode(received.media))
    if received.location is not None:
        fields["location"] = json.dumps(content.encode(received.location)["location"])
    if parts := parts_of({name: getattr(received, name) for name in _PARTS} | dict(beside)):
        fields["parts"] = json.dumps(parts)
    return fields


async def on_account_limits(context: Context, session: Session, event: WorkerEvent[AccountLimits]) -> None:
    """Handle ACCOUNT_LIMITS: messages to new contacts wait while WhatsApp does not let the phone write to them."""
    limits = event.payload
    if not session.phone:
        return
    lock = limits.reachout_lock
    until_ms = (lock.ends_at_ms or FOREVER_MS) if lock.active else 0
    report = reachout_lock.report_number(session, event)
    changed = await contacts.limit(
        context.scripts, session.phone, "lock", session=session.id, until_ms=until_ms, source="reported", report=report
    )
    if changed:
        log.warning("session.reachout_lock_changed", session=session.id, active=lock.active, kind=lock.type)
    cap = limits.new_chat_cap
    if cap is not None and await new_chat_cap.reported(context, session, cap, event):
        log.warning("session.new_chat_cap_changed", session=session.id, status=cap.status, used=cap.used, of=cap.total)
