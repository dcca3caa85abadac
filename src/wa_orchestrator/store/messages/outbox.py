"""A worker's operations on a released message: claim, renew, ack, nack; and reclaim when its lease expires."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from wa_orchestrator.domain.messages.failures import Doubt
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Argument, Scripts
from wa_orchestrator.store.events.worker_events import REFUSALS, EventDelivery, Refusal
from wa_orchestrator.store.messages import contacts, phone_queues
from wa_orchestrator.store.messages.message_keys import (
    Place,
    conversation_of,
    counted_in,
    head,
    layout,
)
from wa_orchestrator.store.outcomes import Fenced, Unknown


@dataclass(frozen=True, slots=True)
class Claimed:
    """The caller holds it until its lease ends."""

    attempt: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class Empty:
    """There is nothing to claim."""


@dataclass(frozen=True, slots=True)
class Renewed:
    """The lease holds until then."""

    until_ms: int


@dataclass(frozen=True, slots=True)
class NotHolder:
    """The caller does not hold this message; this is its status."""

    status: str


@dataclass(frozen=True, slots=True)
class Stranger:
    """The message belongs to another session and another phone than the caller's."""


@dataclass(frozen=True, slots=True)
class WriteRefused:
    """The message must not be written any more; this is its status now, and why."""

    status: str
    reason: str


@dataclass(frozen=True, slots=True)
class WritePermit:
    """What a message is checked against right before it is written: its recipient, the hours, the holds."""

    other_name: str
    """Of its recipient, the name that it does not have; the same where there is no other."""
    open_from_ms: int
    open_until_ms: int
    holds: Sequence[str]


@dataclass(frozen=True, slots=True)
class Became:
    """The message's status is now this."""

    status: str


@dataclass(frozen=True, slots=True)
class Already:
    """The message had this status, or a later one, already."""

    status: str


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The message has another WhatsApp id."""

    whatsapp_id: str


@dataclass(frozen=True, slots=True)
class Alive:
    """The lease has not expired."""

    until_ms: int


async def phone_and_first(scripts: Scripts, session: str) -> tuple[str, str]:
    """Return a session's phone and the first message of its outbox, each '' where there is none."""
    pipe = scripts.redis.pipeline(transaction=False)
    pipe.hget(keys.session(session), "phone")
    pipe.lindex(keys.outbox(session), 0)
    phone, first = await pipe.execute()
    return phone or "", first or ""


async def claim(
    scripts: Scripts,
    session: str,
    *,
    phone: str,
    epoch: int,
    lease_ms: int,
    process: str = "",
    first: str | None = None,
) -> tuple[Place, Claimed] | Fenced | Empty:
    """Claim the released message of a session. A fenced caller gets `Fenced` even when there is nothing to claim.

    A `process` that asks again before it writes gets the same message again: it has not received the answer. `first` is
    the first message of its outbox, from a caller that has just read it; the script looks again.
    """
    if first is None:
        first = str(await scripts.redis.lindex(keys.outbox(session), 0) or "")
    place = Place(first or await phone_queues.in_flight(scripts, phone), phone, session)
    args = [*head(place), epoch, lease_ms, process]
    outcome: Claimed | Fenced | Empty = await scripts.ask(
        "claim_message", layout(place), args, claimed=Claimed, fenced=Fenced, empty=Empty
    )
    return (place, outcome) if isinstance(outcome, Claimed) else outcome


async def renew(
    scripts: Scripts, place: Place, *, epoch: int, lease_ms: int
) -> Renewed | Fenced | NotHolder | Stranger:
    """Extend the holder's lease."""
    args = [*head(place), epoch, lease_ms]
    return await scripts.ask(
        "renew_claim", layout(place), args, renewed=Renewed, fenced=Fenced, not_holder=NotHolder, stranger=Stranger
    )


async def confirm_write(
    scripts: Scripts, place: Place, permit: WritePermit, *, epoch: int, lease_ms: int
) -> Renewed | Fenced | NotHolder | Stranger | WriteRefused:
    """Extend the holder's lease right before it writes, unless the message must not be written any more."""
    names = [*layout(place), keys.HOLDS, keys.contacts(place.phone), keys.OPT_OUTS]
    names += [*await conversation_of(scripts, place), keys.UNCONFIRMED]
    hours = (permit.open_from_ms, permit.open_until_ms)
    args = [*head(place), epoch, lease_ms, permit.other_name, *hours, *permit.holds]
    return await scripts.ask(
        "confirm_write",
        names,
        args,
        renewed=Renewed,
        fenced=Fenced,
        not_holder=NotHolder,
        stranger=Stranger,
        refused=WriteRefused,
    )


@dataclass(frozen=True, slots=True)
class ReceiptFacts:
    """What a receipt is recorded with: where its message is (None: not in Redis), to whom, and the time."""

    now_ms: int
    place: Place | None
    to: str
    timezone: str
    """The own time zone of the session that reports it; '' for the installation's."""


async def receipt_facts(scripts: Scripts, message_id: str, *, reporter: str) -> ReceiptFacts:
    """Read what a receipt is recorded with, in one round trip."""
    reads = [
        ("HMGET", keys.message(message_id), "phone", "session", "to"),
        ("HGET", keys.session(reporter), "timezone"),
    ]
    now_ms, ((phone, session, to), timezone) = await scripts.now_and(reads)
    place = Place(message_id, phone, session) if phone is not None and session is not None else None
    return ReceiptFacts(now_ms, place, to or "", timezone or "")


@dataclass(frozen=True, slots=True)
class MessageReport:
    """WhatsApp has a message (`sent`), or its recipient (`delivered`, `read`), as a session says."""

    reporter: str
    """The session that says so: the message's own, or another one of its phone."""
    status: str
    whatsapp_id: str
    at_ms: int
    """By WhatsApp's clock; 0 where it is not known."""


async def ack(
    scripts: Scripts, place: Place, receipt: MessageReport, *, to: str, day: str, delivery: EventDelivery | None = None
) -> Became | Already | Unknown | Mismatch | Stranger | Refusal:
    """Record a receipt of a message to `to`. The worker's event that brought it is noted as received in the same step.

    It is not noted for a message that is unknown, because it may be archived, or a stranger's.
    """
    names = [*layout(place), *counted_in(place.session, day), keys.contacts(place.phone), keys.affinity(to)]
    names += [keys.UNCONFIRMED, keys.unanswered(place.phone), keys.session(receipt.reporter)]
    names += [delivery.key] if delivery else []
    args: list[Argument] = [*head(place), receipt.status, receipt.whatsapp_id, receipt.at_ms, receipt.reporter]
    args += delivery.args() if delivery else []
    own = {"became": Became, "already": Already, "unknown": Unknown, "mismatch": Mismatch, "stranger": Stranger}
    return await scripts.ask("ack_message", names, args, **own, **REFUSALS)


@dataclass(frozen=True, slots=True)
class FailureVerdict:
    """The decision about a failed attempt. `backoff_ms` None means that it was the last one."""

    attempts: int
    reason: str
    backoff_ms: int | None
    doubt: Doubt = Doubt.KEPT
    slowdowns: int = 0
    """How often WhatsApp has now asked the phone to slow down; 0 where it did not."""
    place: Literal["queue", "aside"] = "queue"
    """Where it waits: in the queue, or aside until the phone may write to new contacts."""
    answer: str = ""
    """The worker's code for what ended the attempt; `reason` is what follows from it."""

    @property
    def word(self) -> str:
        if self.backoff_ms is None:
            return "fail"
        return "set_aside" if self.place == "aside" else "retry"


async def nack(
    scripts: Scripts, place: Place, *, epoch: int, verdict: FailureVerdict, day: str
) -> Became | Fenced | NotHolder | Stranger:
    """Return a message that its holder could not send to the front of the queue, set it aside, or let it fail."""
    args: list[Argument] = [*head(place), epoch, verdict.word, verdict.backoff_ms or 0, verdict.reason]
    args += [verdict.attempts, verdict.doubt, verdict.slowdowns, verdict.answer]
    names = [*layout(place), *counted_in(place.session, day), keys.UNCONFIRMED, *await conversation_of(scripts, place)]
    names.append(keys.contacts(place.phone))
    if verdict.place == "aside":
        to = await scripts.redis.hget(keys.message(place.message), "to")
        args += await contacts.names_of(scripts, str(to or ""))
    return await scripts.ask(
        "nack_message", names, args, became=Became, fenced=Fenced, not_holder=NotHolder, stranger=Stranger
    )


async def slowdowns(scripts: Scripts, phone: str) -> int:
    """Return how often WhatsApp has asked a phone to slow down since it last took a message."""
    return int(await scripts.redis.hget(keys.pace(phone), "slowdowns") or 0)


async def shorten_leases(scripts: Scripts, *, longest_ms: int) -> bool:
    """Shorten leases that outlast the longest one, because Redis' clock was set back. Return whether there were any."""
    return await scripts.whether("shorten_leases", [keys.LEASES], [longest_ms], shortened=True, none=False)


async def reclaim(scripts: Scripts, place: Place, *, most_crashes: int | None, day: str) -> Became | Alive | Unknown:
    """Take back a message whose lease has expired; after so many crashes it fails. None: its worker did not crash."""
    names = [*layout(place), *counted_in(place.session, day), keys.UNCONFIRMED]
    args = [*head(place), most_crashes or ""]
    return await scripts.ask("reclaim_message", names, args, became=Became, alive=Alive, unknown=Unknown)


async def add_uncounted_attempt(scripts: Scripts, message_id: str) -> None:
    """Count an attempt that is not the message's fault, so that it does not use up the message's attempts."""
    await scripts.redis.hincrby(keys.message(message_id), "uncounted", 1)


async def note_refusal(scripts: Scripts, message_id: str, attempt: int) -> None:
    """Record that a worker's event reported the refusal of this attempt."""
    await scripts.redis.hset(keys.message(message_id), "refusal_heard", str(attempt))


async def is_refusal_noted(scripts: Scripts, message_id: str, attempt: int) -> bool:
    """Whether a worker's event reported the refusal of this attempt."""
    return bool(await scripts.redis.hget(keys.message(message_id), "refusal_heard") == str(attempt))


async def amend(scripts: Scripts, place: Place, how: Literal["EDITED", "DELETED"], body: str = "") -> bool:
    """Note that a sent message has another content now, or was deleted for everyone; False if it is gone."""
    args: list[Argument] = [*head(place), how, body]
    return await scripts.whether("amend_message", layout(place), args, amended=True, unknown=False)
