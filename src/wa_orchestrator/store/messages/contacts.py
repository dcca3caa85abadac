"""Contacts: incoming messages, opt-outs, phones and LIDs, and the reach-out lock."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from wa_orchestrator.store import keys, records
from wa_orchestrator.store.engine.scripts import Argument, Scripts
from wa_orchestrator.store.events.worker_events import EventDelivery, InProgress, Refusal, Repeated
from wa_orchestrator.store.outcomes import Fenced
from wa_orchestrator.store.record_codec import flat

LockSource = Literal["reported", "guessed"]


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message to one of our phones. `fields` are stored with it and stay out of the stream."""

    session: str
    phone: str
    whatsapp_id: str
    kind: str
    contact_phone: str = ""
    contact_lid: str = ""
    group: str = ""
    fields: Mapping[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Received:
    """The message is stored and its event emitted. `rest`: it opts out, or changes what else waits."""

    rest: bool


@dataclass(frozen=True, slots=True)
class ReceivedBefore:
    """The message was stored before; its sender may have opted out since then, or not all have been told."""

    rest: bool


@dataclass(frozen=True, slots=True)
class SenderFacts:
    """What an incoming message is stored with: the time, the phone it came to, and both names of who sent it."""

    now_ms: int
    our_phone: str
    phone: str
    lid: str


async def sender_facts(scripts: Scripts, session: str, phone: str, lid: str) -> SenderFacts:
    """Read what an incoming message is stored with, in one round trip; the other name may be known from before."""
    names = ("GET", keys.lid_of(phone)) if phone else ("GET", keys.phone_of(lid))
    now_ms, (our_phone, known) = await scripts.now_and([("HGET", keys.session(session), "phone"), names])
    return SenderFacts(now_ms, our_phone or "", phone or known or "", lid or (phone and known) or "")


async def receive(
    scripts: Scripts, message: Incoming, *, keep_ms: int, delivery: EventDelivery | None = None, opts_out: str = ""
) -> Received | ReceivedBefore | Refusal:
    """Store an incoming message and emit its event, once; `opts_out` is its stop word, if it has one.

    The worker's event that brought it is noted as received in the same step, unless something is left to do.
    """
    names = [
        keys.incoming(message.session, message.whatsapp_id), keys.contacts(message.phone),
        keys.affinity(message.contact_phone), keys.lid_of(message.contact_phone),
        keys.phone_of(message.contact_lid), keys.EVENTS, keys.INCOMING, keys.OPT_OUTS, keys.set_aside(message.phone),
        keys.session(message.session), *([delivery.key] if delivery else ()),
    ]  # fmt: skip
    args: list[Argument] = [
        message.session, message.phone, message.contact_phone, message.contact_lid, keep_ms, message.whatsapp_id,
        message.kind, message.group, opts_out, *(delivery.args() if delivery else ("", "", "")),
        *flat(message.fields),
    ]  # fmt: skip
    return await scripts.ask(
        "receive_message",
        names,
        args,
        received=Received,
        already=ReceivedBefore,
        fenced=Fenced,
        in_progress=InProgress,
        repeated=Repeated,
    )


async def report_undecryptable(scripts: Scripts, message: Incoming, *, reason: str, keep_ms: int) -> bool:
    """Emit that a message cannot be read, once; False when that was told, or the message came meanwhile."""
    pair = (message.session, message.whatsapp_id)
    args: list[str | int | float] = [
        message.session, message.phone, message.contact_phone, message.contact_lid, keep_ms, message.whatsapp_id,
        reason, message.group,
    ]  # fmt: skip
    names = [keys.undecryptable(*pair), keys.incoming(*pair), keys.EVENTS]
    return await scripts.whether("report_undecryptable", names, args, reported=True, already=False, readable=False)


async def change_identity(
    scripts: Scripts, phone: str, *, session: str, contact_phone: str, old_lid: str, new_lid: str
) -> bool:
    """Record that a contact's number belongs to another account now; False when that is known."""
    names = [
        keys.lid_of(contact_phone), keys.phone_of(old_lid), keys.phone_of(new_lid), keys.contacts(phone), keys.EVENTS,
    ]  # fmt: skip
    args: list[str | int | float] = [session, phone, contact_phone, old_lid, new_lid]
    return await scripts.whether("change_identity", names, args, changed=True, already=False)


async def opt_out(scripts: Scripts, recipient: str, *, word: str, via: str, session: str = "", phone: str = "") -> bool:
    """Put a recipient on the list; False when they are on it. The caller cancels waiting messages to them."""
    return await scripts.whether(
        "add_opt_out", [keys.OPT_OUTS, keys.EVENTS], [recipient, word, via, session, phone], added=True, already=False
    )


async def opt_in(scripts: Scripts, recipient: str) -> bool:
    """Take a recipient off the list; False when they were not on it.

    They may be listed by phone and by LID (`lid:<n>`); the entry under the other name would else bring it back.
    """
    lid = recipient.removeprefix("lid:")
    if lid != recipient:
        other = await phone_of_lid(scripts, lid)
    else:
        other = "lid:" + await lid_of_phone(scripts, recipient)
    return bool(await scripts.redis.hdel(keys.OPT_OUTS, recipient, other))


async def affinity(scripts: Scripts, recipient: str) -> str | None:
    """Return the session that last exchanged messages with a recipient."""
    found: Any = await scripts.redis.get(keys.affinity(recipient))
    return None if found is None else str(found)


@dataclass(frozen=True, slots=True)
class OptOutRecord:
    """A recipient (a phone, or `lid:…`) that opted out: when, with which word, and how."""

    recipient: str
    at_ms: int
    word: str
    via: str


async def opt_outs(scripts: Scripts) -> list[OptOutRecord]:
    """Return all opt-outs, by recipient."""
    stored: Any = await scripts.redis.hgetall(keys.OPT_OUTS)
    return [_opt_out_record(recipient, text) for recipient, text in sorted(stored.items())]


async def opt_out_of(scripts: Scripts, recipient: str) -> OptOutRecord | None:
    text: Any = await scripts.redis.hget(keys.OPT_OUTS, recipient)
    return None if text is None else _opt_out_record(recipient, text)


def _opt_out_record(recipient: str, text: str) -> OptOutRecord:
    raw = json.loads(text)
    return OptOutRecord(recipient, int(raw.get("at_ms", 0)), raw.get("word") or "", raw.get("via") or "")


async def phone_of_lid(scripts: Scripts, lid: str) -> str:
    """Return the phone of a LID, '' when it was never seen."""
    return str(await scripts.redis.get(keys.phone_of(lid)) or "")


async def lid_of_phone(scripts: Scripts, phone: str) -> str:
    """Return the LID of a phone, '' when it was never seen."""
    return str(await scripts.redis.get(keys.lid_of(phone)) or "")


@dataclass(frozen=True, slots=True)
class ReportNumber:
    """The order of a worker's reports: of two with one epoch, the one with the higher number is newer."""

    epoch: int
    number: int


async def lock(
    scripts: Scripts, phone: str, *, session: str, until_ms: int, source: LockSource, report: ReportNumber | None = None
) -> bool:
    """Record until when a phone may not write to new contacts (0: it may); False when nothing changed."""
    names = [keys.pace(phone), keys.DUE, keys.EVENTS]
    who, number = (f"{session} {report.epoch}", report.number) if report else ("", 0)
    return await scripts.whether(
        "lock_reachout", names, [phone, session, until_ms, source, who, number], locked=True, open=True, same=False
    )


async def reopen(scripts: Scripts, phone: str, recipient: str) -> int:
    """Return set-aside messages to the queue, because their recipient wrote first; returns how many."""
    aside: Any = await scripts.redis.zrange(keys.set_aside(phone), 0, -1)
    ids = [message.id for message in await records.messages(scripts, aside) if message.to == recipient]
    if not ids:
        return 0
    names = [keys.set_aside(phone), keys.queue(phone), keys.DUE]
    reply = await scripts.run("restore_messages", names, [phone, *ids])
    return int(reply[1])
