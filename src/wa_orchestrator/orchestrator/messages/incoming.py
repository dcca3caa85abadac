"""What comes in from people and from WhatsApp about an account: messages, wishes to be left alone, and locks."""

import json
from typing import Any

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain import opt_out
from wa_orchestrator.domain.pacing import DAY_MS
from wa_orchestrator.domain.worker_events import AccountLimits, MessageReceived, WorkerEvent
from wa_orchestrator.orchestrator.messages import reachout_lock
from wa_orchestrator.store import contacts, keys, open_messages, queues, records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.message_keys import Place
from wa_orchestrator.store.records import Session
from wa_orchestrator.timestamps import FOREVER_MS

OPTED_OUT = "OPTED_OUT"

log = structlog.get_logger(__name__)


async def on_message_received(context: Context, session: Session, event: WorkerEvent) -> None:
    """MESSAGE_RECEIVED: keep it, tell the operator's systems, and obey if it is a stop word.

    Every step may be repeated: the worker tells it again until all of them are done.
    """
    said = event.payload
    assert isinstance(said, MessageReceived)  # noqa: S101 (the intake hands on by class)
    scripts = context.scripts
    phone, lid = await _names(scripts, said)
    message = contacts.Incoming(session.id, session.phone, said.whatsapp_id, said.kind, phone, lid, _fields(said))
    keep_ms = context.settings.body_retention_days * DAY_MS
    if isinstance(await contacts.receive(scripts, message, keep_ms=keep_ms), contacts.New):
        log.info("message.received", session=session.id, kind=said.kind)
    if said.group is not None:
        return  # a word to a group is not a word to us
    if phone:
        await _let_answers_go(scripts, session.phone, phone)
        await _recall_wish(scripts, phone, lid)
    if said.text and opt_out.is_opt_out(said.text, context.settings.stop_words):
        await _obey(scripts, session, phone or f"lid:{lid or _user(said.sender)}", said.text)


async def _names(scripts: Scripts, said: MessageReceived) -> tuple[str, str]:
    """Who wrote, by phone and by LID; what the worker did not know may have been told before."""
    phone, lid = _user(said.phone or ""), _user(said.lid or "")
    if not phone and not lid:
        phone = _user(said.sender) if said.sender.endswith("@s.whatsapp.net") else ""
        lid = _user(said.sender) if said.sender.endswith("@lid") else ""
    if not phone and lid:
        phone = str(await scripts.redis.get(keys.phone_of(lid)) or "")
    if not lid and phone:
        lid = str(await scripts.redis.get(keys.lid_of(phone)) or "")
    return phone, lid


def _user(jid: str) -> str:
    """The digits of an address: without the device and the server."""
    return jid.partition("@")[0].partition(":")[0].removeprefix("+")


def _fields(said: MessageReceived) -> dict[str, str | int]:
    fields: dict[str, str | int] = {"from": said.sender, "at": said.at_ms}
    if said.group is not None:
        fields["group"] = said.group
    if said.push_name:
        fields["push_name"] = said.push_name
    if said.text is not None:
        fields["text"] = said.text
    if said.media is not None:
        fields["media"] = json.dumps(said.media)
    return fields


async def _let_answers_go(scripts: Scripts, phone: str, contact: str) -> None:
    """Whoever writes first is no new contact: what a reach-out lock holds back for them may leave."""
    aside: Any = await scripts.redis.zrange(keys.set_aside(phone), 0, -1)
    if aside:
        theirs = [message.id for message in await records.messages(scripts, aside) if message.to == contact]
        await contacts.reopen(scripts, phone, theirs)


async def _recall_wish(scripts: Scripts, phone: str, lid: str) -> None:
    """Somebody who opted out when only their LID was known keeps that wish under their phone."""
    if lid and await scripts.redis.hexists(keys.OPT_OUTS, f"lid:{lid}"):
        await contacts.opt_out(scripts, phone, word="", via="reply")
        await cancel_for(scripts, phone)


async def _obey(scripts: Scripts, session: Session, recipient: str, text: str) -> None:
    word = text.strip()[:40]
    await contacts.opt_out(scripts, recipient, word=word, via="reply", session=session.id, phone=session.phone)
    cancelled = await cancel_for(scripts, recipient)
    log.info("contact.opted_out", session=session.id, recipient=recipient, cancelled=cancelled)


async def cancel_for(scripts: Scripts, recipient: str) -> int:
    """Cancel what waits for a recipient who opted out, wherever it waits; how many."""
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


async def on_account_limits(context: Context, session: Session, event: WorkerEvent) -> None:
    """ACCOUNT_LIMITS: while WhatsApp does not let a phone write to new contacts, messages to them wait."""
    limits = event.payload
    assert isinstance(limits, AccountLimits)  # noqa: S101 (the intake hands on by class)
    if not session.phone:
        return
    lock = limits.reachout_lock
    until_ms = (lock.ends_at_ms or FOREVER_MS) if lock.active else 0
    word = reachout_lock.word_of(session, event)
    changed = await contacts.lock(
        context.scripts, session.phone, session=session.id, until_ms=until_ms, source="told", word=word
    )
    if isinstance(changed, contacts.New):
        log.warning("session.reachout_lock", session=session.id, active=lock.active, kind=lock.type)
