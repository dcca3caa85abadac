"""Contacts: incoming messages, opt-outs, phones and LIDs, and WhatsApp's limits on new ones."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from redis.asyncio.client import Pipeline

from wa_orchestrator.domain import conversation, stream_events
from wa_orchestrator.domain import phone as phones
from wa_orchestrator.domain import recipient as recipient_names
from wa_orchestrator.domain.messages.incoming import AMENDMENTS, id_of
from wa_orchestrator.domain.recipient import lid_of, may_be_lid
from wa_orchestrator.domain.stream_events import CallReported, EventType
from wa_orchestrator.store import keys, leases
from wa_orchestrator.store.conversations import conversation_homes, thread_notices
from wa_orchestrator.store.conversations.thread_notices import Notice
from wa_orchestrator.store.engine.compare_and_set import Changed, compare_and_set
from wa_orchestrator.store.engine.scripts import Argument, Scripts
from wa_orchestrator.store.events.activity import HOUR_MS
from wa_orchestrator.store.events.worker_events import REFUSALS, EventDelivery, Refusal
from wa_orchestrator.store.record_codec import flat

_CALL_KEPT_MS = 86_400_000
#: A username may be another person's some day.
_USERNAME_KEPT_MS = 86_400_000
#: As in `_conversation.lua` and `receive_message.lua`.
_SENDER_KEPT_S, _NAMES_KEPT_S = 7_776_000, 34_560_000
#: Opt-outs an hour of people whom a session is not known to have written to; more than people send by themselves.
UNPROVEN_PER_HOUR = 10
LimitSource = Literal["reported", "guessed"]
#: What keeps a phone from writing to new contacts: the reach-out lock, or the allowance of new chats being used up.
NewContactLimit = Literal["lock", "cap"]
#: Why messages to a person are no longer set aside: the person wrote, or another name turned out to be theirs.
ReopenedBy = Literal["writing", "name"]


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
    event: EventType = EventType.MESSAGE_RECEIVED
    is_ours: bool = False
    """Whether the account's owner sent it, from the phone or another device."""
    counts_at_ms: int = 0
    """When it counts for the phone's pace; 0 for one that does not."""
    due_file: str = ""
    """Our id of the message if its file is to be fetched now."""
    name: str = ""
    """What the contact calls themselves, or the group is called; '' where it is not known."""
    target: str = ""
    """WhatsApp's id of the message that it changes."""

    @property
    def chat(self) -> str:
        """The contact or group of its conversation."""
        return conversation.contact_name(self.contact_phone, self.contact_lid, self.group)


async def report_call(scripts: Scripts, kind: EventType, call: CallReported, *, keep_ms: int) -> bool:
    """Emit the event of a call, once, and note one that has ended in its conversation; False when that was done."""
    fields, ours = stream_events.encode(call), call.phone or call.session
    chat = conversation.contact_name(call.contact_phone, call.contact_lid, call.group or "")
    notice = Notice(thread_notices.CALL, call.session, call.call, call.outcome or "", video=call.video == "true")
    names = [keys.call_reported(ours, f"{kind}:{call.call}"), keys.EVENTS, keys.notices(ours, chat)]
    noted = notice.encoded() if chat and call.outcome else ""
    args: list[str | int | float] = [kind, _CALL_KEPT_MS, noted, keep_ms, *flat(fields)]
    return await scripts.whether("report_call", names, args, reported=True, already=False)


@dataclass(frozen=True, slots=True)
class Received:
    """The message is stored and its event emitted. `rest`: it opts out, or changes what else waits."""

    rest: bool


@dataclass(frozen=True, slots=True)
class ReceivedCopy:
    """Another session of the phone reported the message before: it is stored for this one too, without an event."""

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
    """Read what an incoming message is stored with; the other name of its sender may be known from before."""
    names = ("GET", keys.lid_of(phone)) if phone else ("GET", keys.phone_of(lid))
    now_ms, (our_phone, known) = await scripts.now_and([("HGET", keys.session(session), "phone"), names])
    if known and not (phone and lid):
        back = await scripts.redis.get(keys.phone_of(known) if phone else keys.lid_of(known))
        known = known if back == (phone or lid) else ""
    return SenderFacts(now_ms, our_phone or "", phone or known or "", lid or (phone and known) or "")


async def receive(
    scripts: Scripts, message: Incoming, *, keep_ms: int, delivery: EventDelivery | None = None, opts_out: str = ""
) -> Received | ReceivedCopy | ReceivedBefore | Refusal:
    """Store an incoming message and emit its event, once for all sessions of the phone.

    `opts_out` is its stop word, if it has one.
    The worker's event that brought it is noted as received in the same step, unless something is left to do.
    """
    by_lid = f"lid:{message.contact_lid}"
    home, home_by_lid = await conversation_homes.of_incoming(
        scripts, message.phone, message.session, message.chat, by_lid, is_group=bool(message.group)
    )
    names = [
        keys.incoming(message.session, message.whatsapp_id), keys.contacts(message.phone),
        keys.affinity(message.contact_phone or f"lid:{message.contact_lid}"), keys.lid_of(message.contact_phone),
        keys.phone_of(message.contact_lid), keys.EVENTS, keys.INCOMING, keys.OPT_OUTS, keys.set_aside(message.phone),
        keys.session(message.session), keys.sent(message.phone), keys.MEDIA_DUE,
        keys.conversation(home, message.chat), keys.thread(home, message.chat),
        keys.conversation(home_by_lid, by_lid), keys.thread(home_by_lid, by_lid), keys.CONVERSATION_INDEX,
        keys.CONVERSATION_ACTIVITY, keys.CONVERSATION_NAMES, keys.changes_of(message.session, message.target),
        keys.unanswered(message.phone), keys.answered(message.phone), keys.pace(message.phone),
        keys.first_report(message.phone, message.whatsapp_id), keys.sessions_of_phone(message.phone),
        keys.affinity(f"lid:{message.contact_lid}"),
        *([delivery.key] if delivery else ()),
    ]  # fmt: skip
    args: list[Argument] = [
        message.session, message.phone, message.contact_phone, message.contact_lid, keep_ms, message.whatsapp_id,
        message.kind, message.group, opts_out, *(delivery.args() if delivery else ("", "", "")),
        message.event, "out" if message.is_ours else "in", message.counts_at_ms, message.due_file,
        id_of(message.session, message.whatsapp_id), message.chat, message.name, message.name.casefold(),
        "amends" if message.kind in AMENDMENTS else "", home, *flat(message.fields),
    ]  # fmt: skip
    return await scripts.ask(
        "receive_message", names, args, received=Received, copied=ReceivedCopy, already=ReceivedBefore, **REFUSALS
    )


async def report_undecryptable(scripts: Scripts, message: Incoming, *, reason: str, keep_ms: int) -> bool:
    """Emit that a message cannot be read, once; False when that was told, or the message came meanwhile."""
    ours, name = message.phone or message.session, message.whatsapp_id
    notice = Notice(thread_notices.UNDECRYPTABLE, message.session, name, reason)
    args: list[str | int | float] = [
        message.session, message.phone, message.contact_phone, message.contact_lid, keep_ms, message.whatsapp_id,
        reason, message.group, notice.encoded() if message.chat else "",
    ]  # fmt: skip
    names = [
        keys.undecryptable(ours, name), keys.incoming(message.session, name), keys.EVENTS,
        keys.first_report(message.phone, name), keys.notices(ours, message.chat),
    ]  # fmt: skip
    return await scripts.whether("report_undecryptable", names, args, reported=True, already=False, readable=False)


async def change_identity(
    scripts: Scripts, phone: str, *, session: str, contact_phone: str, old_lid: str, new_lid: str, is_proven: bool
) -> bool:
    """Record that a contact's number belongs to another account now; False when that is known.

    What it is called changes only where our phone is proven to know the contact.
    """
    names = [
        keys.lid_of(contact_phone), keys.phone_of(old_lid), keys.phone_of(new_lid), keys.contacts(phone), keys.EVENTS,
    ]  # fmt: skip
    args: list[str | int | float] = [session, phone, contact_phone, old_lid, new_lid, "proven" if is_proven else ""]
    return await scripts.whether("change_identity", names, args, changed=True, already=False)


async def opt_out(scripts: Scripts, recipient: str, *, word: str, via: str, session: str = "", phone: str = "") -> bool:
    """Put a recipient on the list; False when they are on it. The caller cancels waiting messages to them."""
    return await scripts.whether(
        "add_opt_out", [keys.OPT_OUTS, keys.EVENTS], [recipient, word, via, session, phone], added=True, already=False
    )


async def opt_out_from(scripts: Scripts, recipient: str, *, phone: str) -> None:
    """Record that a recipient gets no more messages from this phone of ours."""
    record = json.dumps({"at_ms": await scripts.now_ms(), "word": "", "via": "reply"})
    await scripts.redis.hsetnx(keys.OPT_OUTS, f"{phone} {recipient}", record)


async def count_unproven_opt_out(scripts: Scripts, session: str) -> bool:
    """Count an opt-out of somebody whom the session is not known to have written to; False: it had too many."""
    return await leases.spend(scripts, f"opt-outs {session}", HOUR_MS / UNPROVEN_PER_HOUR, UNPROVEN_PER_HOUR)


async def sessions_with_unproven_opt_outs(scripts: Scripts) -> list[str]:
    """Return the sessions of which people were told within the hour that they had too many of them."""
    ids: Any = sorted(await scripts.redis.smembers(keys.SESSIONS_ALL))
    told = await scripts.each(Pipeline.exists, [keys.rate(f"opt-outs-alert {each}") for each in ids])
    return [session for session, is_told in zip(ids, told, strict=True) if is_told]


async def is_unproven_news(scripts: Scripts, session: str) -> bool:
    """Whether people are to be told that a session had too many of them: once an hour."""
    return await leases.spend(scripts, f"opt-outs-alert {session}", HOUR_MS, 1)


async def opt_in(scripts: Scripts, recipient: str) -> bool:
    """Take a recipient off the list; False when they were not on it.

    They may be listed by phone and by LID (`lid:<n>`); the entry under the other name would else bring it back.
    """
    both = await names_of(scripts, recipient)
    fields: Any = await scripts.redis.hkeys(keys.OPT_OUTS)
    named = [field for field in fields if field.rpartition(" ")[2] in both]
    return bool(named) and bool(await scripts.redis.hdel(keys.OPT_OUTS, *named))


async def names_of(scripts: Scripts, recipient: str) -> tuple[str, ...]:
    """Return the names of a recipient, a phone or `lid:<n>`: this one, and the other where both are one person's."""
    lid = recipient.removeprefix("lid:")
    if lid != recipient:
        other = await phone_of_lid(scripts, lid)
    else:
        known = await lid_of_phone(scripts, recipient)
        other = known and f"lid:{known}"
    return (recipient, other) if other else (recipient,)


async def other_name(scripts: Scripts, recipient: str) -> str:
    """Return the other name of a recipient; the same where there is none."""
    return (await names_of(scripts, recipient))[-1]


async def affinity(scripts: Scripts, recipient: str) -> str | None:
    """Return the session that last exchanged messages with a recipient."""
    found: Any = await scripts.redis.get(keys.affinity(recipient))
    return None if found is None else str(found)


async def set_affinity(scripts: Scripts, recipient: str, session: str) -> None:
    """Give the conversation with a recipient to a session."""
    await scripts.redis.set(keys.affinity(recipient), session, ex=_SENDER_KEPT_S)


async def set_names(scripts: Scripts, phone: str, lid: str) -> None:
    """Record that a phone and a LID are the same person."""
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.set(keys.lid_of(phone), lid, ex=_NAMES_KEPT_S)
        pipe.set(keys.phone_of(lid), phone, ex=_NAMES_KEPT_S)
        await pipe.execute()


async def count_unproven_takeover(scripts: Scripts, session: str) -> bool:
    """Count a conversation that a session takes from another phone on its worker's word; False: it took too many."""
    return await leases.spend(scripts, f"takeovers {session}", HOUR_MS / UNPROVEN_PER_HOUR, UNPROVEN_PER_HOUR)


async def affinities(scripts: Scripts, recipients: Sequence[str]) -> list[str | None]:
    """Return the same for each of these."""
    found: Any = await scripts.redis.mget([keys.affinity(each) for each in recipients]) if recipients else []
    return list(found)


@dataclass(frozen=True, slots=True)
class OptOutRecord:
    """A recipient (a phone, or `lid:…`) that opted out: when, with which word, and how."""

    recipient: str
    at_ms: int
    word: str
    via: str
    only_from: str = ""
    """The phone of ours that it holds for; '' for all."""


async def opt_outs(scripts: Scripts) -> list[OptOutRecord]:
    """Return all opt-outs, by recipient."""
    stored: Any = await scripts.redis.hgetall(keys.OPT_OUTS)
    found = [_opt_out_record(field, text) for field, text in stored.items()]
    return sorted(found, key=lambda each: (each.recipient, each.only_from))


async def has_opted_out(scripts: Scripts, recipient: str, *, phone: str) -> bool:
    """Whether a recipient gets no more messages from this phone of ours."""
    found: Any = await scripts.redis.hmget(keys.OPT_OUTS, [recipient, f"{phone} {recipient}"])
    return any(each is not None for each in found)


async def opt_out_of(scripts: Scripts, recipient: str) -> OptOutRecord | None:
    text: Any = await scripts.redis.hget(keys.OPT_OUTS, recipient)
    return None if text is None else _opt_out_record(recipient, text)


async def opted_out_among(scripts: Scripts, pairs: Sequence[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    """Return those of these pairs of our phone ('' = any) and a name (a phone, `lid:…`) that opted out."""
    if not pairs:
        return frozenset()
    fields = [field for phone, name in pairs for field in (name, f"{phone} {name}")]
    found: Any = await scripts.redis.hmget(keys.OPT_OUTS, fields)
    told = zip(pairs, found[::2], found[1::2], strict=True)
    return frozenset(pair for pair, of_all, of_one in told if of_all is not None or of_one is not None)


async def own_phones(scripts: Scripts, sessions: Iterable[str]) -> dict[str, str]:
    """Return the phones of these sessions; '' for one that is gone."""
    names = sorted(set(sessions))
    found = await scripts.each(lambda pipe, key: pipe.hget(key, "phone"), map(keys.session, names))
    return {name: phone or "" for name, phone in zip(names, found, strict=True)}


def _opt_out_record(field: str, text: str) -> OptOutRecord:
    only_from, _, recipient = field.rpartition(" ")
    raw = json.loads(text)
    return OptOutRecord(recipient, int(raw.get("at_ms", 0)), raw.get("word") or "", raw.get("via") or "", only_from)


async def phone_of_lid(scripts: Scripts, lid: str) -> str:
    """Return the phone of a LID; '' where it was never seen, and where that phone is known to have another LID.

    A phone and a LID are one person only if both say so: a number may belong to somebody else since.
    """
    phone = str(await scripts.redis.get(keys.phone_of(lid)) or "")
    return phone if phone and await scripts.redis.get(keys.lid_of(phone)) == lid else ""


async def lid_of_phone(scripts: Scripts, phone: str) -> str:
    """Return the LID of a phone, by the same rule; '' where there is none."""
    lid = str(await scripts.redis.get(keys.lid_of(phone)) or "")
    return lid if lid and await scripts.redis.get(keys.phone_of(lid)) == phone else ""


async def recorded_names(scripts: Scripts, phone: str, lid: str) -> tuple[str, str]:
    """Return the phone that is recorded for a LID, and the LID that is recorded for a phone; each '' for none."""
    known: Any = await scripts.redis.mget([keys.phone_of(lid), keys.lid_of(phone)])
    return known[0] or "", known[1] or ""


async def is_known_lid(scripts: Scripts, digits: str) -> bool:
    """Whether somebody with this LID has written to one of our phones, whose phone may be hidden."""
    return bool(await scripts.redis.exists(keys.phone_of(digits)))


async def known_lids(scripts: Scripts, digits: Iterable[str]) -> frozenset[str]:
    """Return those of many phones whose digits are the LID of somebody who has written to us."""
    asked = [each for each in digits if may_be_lid(each)]
    found = await scripts.each(Pipeline.exists, map(keys.phone_of, asked))
    return frozenset(each for each, is_known in zip(asked, found, strict=True) if is_known)


async def lid_of_username(scripts: Scripts, phone: str, name: str) -> str:
    """Return the LID of a username as this phone of ours looked it up; '' when it has not within a day."""
    return str(await scripts.redis.get(keys.username(phone, name)) or "")


async def set_username(scripts: Scripts, phone: str, name: str, lid: str) -> None:
    """Record whose a username is. For this phone of ours only: nothing but its worker's word says so."""
    await scripts.redis.set(keys.username(phone, name), lid, px=_USERNAME_KEPT_MS)


async def known_name(scripts: Scripts, to: str) -> str:
    """Return the name by which a recipient is on the list of opt-outs: the phone, once it is known."""
    lid = lid_of(to)
    return (lid and await phone_of_lid(scripts, lid)) or to


async def parse_recipient(scripts: Scripts, text: str) -> str:
    """Return the spelling of a recipient. Raises `Refused` for what is none, and for digits that are a LID."""
    to = recipient_names.parse(text)
    if await known_lids(scripts, [to]):
        raise recipient_names.lid_refusal(to)
    return to


async def person(scripts: Scripts, text: str) -> str:
    """Return the name of a person who is given by phone or `lid:<digits>`: the phone, once it is known.

    Raises `Refused` for anything else, and for digits that are a LID: nothing is known under them as a phone.
    """
    if text.strip().startswith("lid:"):
        return await known_name(scripts, recipient_names.parse(text))
    digits = phones.parse(text)
    if await known_lids(scripts, [digits]):
        raise recipient_names.lid_refusal(digits)
    return digits


@dataclass(frozen=True, slots=True)
class ReportNumber:
    """The order of a worker's reports: of two with one epoch, the one with the higher number is newer."""

    epoch: int
    number: int


async def limit(
    scripts: Scripts,
    phone: str,
    which: NewContactLimit,
    *,
    session: str,
    until_ms: int,
    source: LimitSource,
    report: ReportNumber | None = None,
) -> bool:
    """Record until when a limit keeps a phone from new contacts (0: it does not); False when nothing changed."""
    names = [keys.pace(phone), keys.DUE, keys.EVENTS]
    who, number = (f"{session} {report.epoch}", report.number) if report else ("", 0)
    args: list[Argument] = [phone, session, until_ms, source, who, number, which]
    return await scripts.whether("limit_new_contacts", names, args, limited=True, open=True, same=False)


@compare_and_set("The queue of {phone}")
async def reopen(scripts: Scripts, phone: str, person: str, *, by: ReopenedBy) -> int | Changed:
    """Return messages to a person that were set aside, under either name, to the queue; return how many.

    One who has written is a known contact from then on, in the same step: else the next message to them would leave
    before those.
    """
    names = await names_of(scripts, person)
    aside: Any = await scripts.redis.zrange(keys.set_aside(phone), 0, -1)
    to = await scripts.each(lambda pipe, key: pipe.hget(key, "to"), map(keys.message, aside)) if aside else []
    theirs = [message for message, recipient in zip(aside, to, strict=True) if recipient in names]
    others = [message for message in aside if message not in set(theirs)]
    where = [keys.set_aside(phone), keys.queue(phone), keys.DUE, keys.contacts(phone)]
    args: list[Argument] = [phone, person if by == "writing" else "", len(theirs), *theirs, *others]
    reply = await scripts.run("reopen_messages", where, args)
    return Changed() if reply == ["changed"] else int(reply[1])
