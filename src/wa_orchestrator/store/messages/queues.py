"""The way of a message from the gateway's jobs to an outbox: route, schedule, release, reroute, cancel, retry, end."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wa_orchestrator.domain.messages.failures import FREEING, Failure
from wa_orchestrator.store import keys
from wa_orchestrator.store.conversations import conversation_homes
from wa_orchestrator.store.engine.compare_and_set import Changed
from wa_orchestrator.store.engine.scripts import Scripts, unexpected
from wa_orchestrator.store.messages.message_keys import (
    Place,
    conversation_of,
    counted_in,
    head,
    layout,
)
from wa_orchestrator.store.records import Message, Session


@dataclass(frozen=True, slots=True)
class Queued:
    """It waits in its phone's queue."""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """It is scheduled for this instant."""

    due_ms: int


@dataclass(frozen=True, slots=True)
class Gone:
    """It was moved or ended meanwhile; there is nothing to do."""


@dataclass(frozen=True, slots=True)
class NoSession:
    """Its session does not exist any more."""


@dataclass(frozen=True, slots=True)
class Released:
    """It is in the outbox, and a worker may claim it."""

    now_ms: int


@dataclass(frozen=True, slots=True)
class Wait:
    """The phone may not send before this instant. `because` is a name of `WaitReason`."""

    until_ms: int
    because: str


@dataclass(frozen=True, slots=True)
class Busy:
    """Another message of this phone is in flight."""

    message: str


@dataclass(frozen=True, slots=True)
class Offline:
    """The session is not connected."""

    status: str


@dataclass(frozen=True, slots=True)
class Held:
    """An operator or a ban signal holds it; `by` is the field of the holds."""

    by: str


@dataclass(frozen=True, slots=True)
class SetAside:
    """It goes to a new contact while the account may not reach out; the next message may go."""


@dataclass(frozen=True, slots=True)
class MustEnd:
    """It may never be sent: `reason` is OPTED_OUT or EXPIRED."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ended:
    """It ended without being sent; as unknown if it was tried, and its recipient may have it."""


@dataclass(frozen=True, slots=True)
class Rerouted:
    """It is a job again, for another phone."""


@dataclass(frozen=True, slots=True)
class TooLate:
    """It cannot be ended (or retried) any more; this is its status."""

    status: str


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A person said that its recipient has it; this is its status now."""

    status: str


@dataclass(frozen=True, slots=True)
class AlreadySent:
    """WhatsApp or another person had confirmed it; this is its status."""

    status: str


@dataclass(frozen=True, slots=True)
class Permit:
    """The limits of a release, computed by `domain.pacing` for this message at this time."""

    pause_ms: int
    per_minute: int
    per_day: int
    day_start_ms: int
    day_end_ms: int
    open_from_ms: int
    open_until_ms: int
    lease_ms: int
    minute_ms: int = 60_000
    holds: Sequence[str] = ()


Release = Released | Wait | Busy | Changed | Offline | Held | SetAside | MustEnd


async def jobs(scripts: Scripts, *, most: int) -> list[str]:
    """Return the oldest jobs: ids of accepted messages that are not routed yet."""
    found: Any = await scripts.redis.lrange(keys.GATEWAY_JOBS, 0, most - 1)
    return [str(each) for each in found]


async def set_aside_job(scripts: Scripts, job: str) -> bool:
    """Move a job that is no message to the list of those set aside; False if another dispatcher did."""
    return await scripts.whether(
        "set_aside_job", [keys.GATEWAY_JOBS, keys.STRANGE_JOBS], [job], set_aside=True, gone=False
    )


async def route(
    scripts: Scripts, place: Place, *, to: str, reference: str = "", batch: str = ""
) -> Queued | Scheduled | Gone | NoSession:
    """Move an accepted message into its phone's queue, or into the schedule."""
    home = await conversation_homes.of_message(scripts, place.phone, place.session, to)
    names = [
        keys.GATEWAY_JOBS, keys.GATEWAY_WAITING, keys.message(place.message), keys.queue(place.phone),
        keys.SCHEDULED, keys.DUE, keys.ALL_MESSAGES, keys.messages_of_session(place.session),
        keys.messages_to(to), keys.messages_with_reference(reference), keys.session(place.session),
        keys.submitted(place.phone), keys.later(place.phone), keys.STATUSES, keys.messages_of_batch(batch),
        keys.conversation(*home), keys.CONVERSATION_INDEX, keys.CONVERSATION_ACTIVITY,
    ]  # fmt: skip
    return await scripts.ask(
        "route_message", names, head(place), queued=Queued, scheduled=Scheduled, gone=Gone, no_session=NoSession
    )


async def promote(scripts: Scripts, place: Place) -> bool:
    """Move a scheduled message to its queue; False if it is not due, or not scheduled any more."""
    names = [keys.SCHEDULED, keys.message(place.message), keys.queue(place.phone), keys.DUE, keys.SEQUENCE]
    names += [keys.later(place.phone), *await conversation_of(scripts, place)]
    args = [place.message, place.phone]
    return await scripts.whether("promote_message", names, args, queued=True, early=False, gone=False)


async def release(scripts: Scripts, place: Place, permit: Permit, *, other_name: str) -> Release:
    """Move the first message of the phone to the session's outbox, if the phone may send now.

    `other_name` is that of its recipient, the same where there is no other. With '' for one that nobody looked up the
    answer is `Changed` where it matters.
    """
    names = [*layout(place), keys.HOLDS, keys.contacts(place.phone), keys.OPT_OUTS]
    limits = [permit.pause_ms, permit.per_minute, permit.per_day, permit.day_start_ms, permit.day_end_ms]
    hours = [permit.open_from_ms, permit.open_until_ms]
    args = [*head(place), *limits, *hours, permit.lease_ms, other_name, permit.minute_ms, *permit.holds]
    return await scripts.ask(
        "release_message",
        names,
        args,
        released=Released,
        wait=Wait,
        busy=Busy,
        changed=Changed,
        offline=Offline,
        held=Held,
        set_aside=SetAside,
        must_end=MustEnd,
    )


async def restore_set_aside(scripts: Scripts, phone: str) -> int | None:
    """Return all messages that were set aside to the queue: how many, or None while the lock lasts."""
    return await _restore(scripts, phone, "")


async def restore_of_no_session(scripts: Scripts, phone: str) -> None:
    """Do the same whatever limit the phone has: no session of it is left, and others may send what it keeps aside."""
    await _restore(scripts, phone, "no_session")


async def _restore(scripts: Scripts, phone: str, why: str) -> int | None:
    names = [keys.pace(phone), keys.set_aside(phone), keys.queue(phone), keys.DUE]
    reply = await scripts.run("restore_queue", names, [phone, why])
    match reply:
        case ["restored", count]:
            return int(count)
        case ["locked", _]:
            return None
        case _:
            raise unexpected("restore_queue", reply)


async def cancel(
    scripts: Scripts, place: Place, *, status: str = "cancelled", reason: str = ""
) -> Ended | TooLate | Gone:
    """End a message that no worker has claimed: `cancelled`, or `expired` at once; `unknown` if it may have arrived."""
    return await _end(scripts, place, status, reason)


async def fail(scripts: Scripts, place: Place, *, reason: str, counted: Sequence[str]) -> Ended | TooLate | Gone:
    """Give a message up that no session can send; `counted` has the keys of the day's counts (`counted_in`)."""
    return await _end(scripts, place, "failed", reason, counted=counted)


async def expire(scripts: Scripts, place: Place) -> Ended | TooLate | Gone:
    """End a message whose expiry has passed by Redis' clock; `Gone` also if it has not, or if it was rerouted."""
    return await _end(scripts, place, "expired", "EXPIRED", when="due")


async def settle(
    scripts: Scripts, place: Place, *, status: str, reason: str, left_at_ms: int, counted: Sequence[str]
) -> Ended | TooLate | Gone:
    """End an open message after a restore, wherever it is; one that may have left counts against its phone's limits."""
    names = [*_places(place), keys.UNCONFIRMED, *counted]
    args = [*head(place), status, reason, left_at_ms]
    return await scripts.ask("settle_message", names, args, ended=Ended, too_late=TooLate, unknown=Gone)


def _places(place: Place) -> list[str]:
    """Return the message layout and the other places where a message can wait."""
    return [*layout(place), keys.GATEWAY_JOBS, keys.GATEWAY_WAITING, keys.SCHEDULED, keys.later(place.phone)]


async def _end(
    scripts: Scripts, place: Place, status: str, reason: str, *, when: str = "", counted: Sequence[str] = ()
) -> Ended | TooLate | Gone:
    names = [*_places(place), keys.UNCONFIRMED, *await conversation_of(scripts, place), *counted]
    args = [*head(place), status, reason, when]
    return await scripts.ask(
        "cancel_message", names, args, ended=Ended, too_late=TooLate, unknown=Gone, early=Gone, moved=Gone
    )


async def reroute(scripts: Scripts, place: Place, *, phone: str, session: str) -> Rerouted | TooLate | Gone:
    """Assign a waiting message to another sender, who gets the conversation. It keeps its order of acceptance."""
    to = await scripts.redis.hget(keys.message(place.message), "to")
    names = [*layout(place), keys.GATEWAY_JOBS, keys.GATEWAY_WAITING, keys.SCHEDULED, keys.affinity(str(to or ""))]
    names += [keys.later(place.phone), keys.later(phone)]
    args = [*head(place), phone, session]
    return await scripts.ask(
        "reroute_message", names, args, rerouted=Rerouted, too_late=TooLate, unknown=Gone, moved=Gone
    )


async def follow_session(
    scripts: Scripts, message: Message, session: Session, *, day: str
) -> Rerouted | Ended | TooLate | Gone:
    """Move a message to the phone that its session has now.

    One that was tried stays behind and has failed: its recipient may have it, and would read it twice.
    """
    place = Place(message.id, message.phone, message.session)
    moved = await reroute(scripts, place, phone=session.phone, session=session.id)
    if moved != TooLate("tried"):
        return moved
    return await fail(scripts, place, reason=Failure.SESSION_RELINKED, counted=counted_in(session.id, day))


async def retry(scripts: Scripts, place: Place, *, to: str) -> Queued | TooLate | MustEnd:
    """Queue a dead letter again, with the same WhatsApp id; from another phone only if its failure allows it."""
    args = [*head(place), to, *sorted(FREEING)]
    names = [*layout(place), keys.SEQUENCE, keys.OPT_OUTS, *await conversation_of(scripts, place)]
    return await scripts.ask("retry_message", names, args, queued=Queued, too_late=TooLate, must_end=MustEnd)


async def confirm(
    scripts: Scripts, place: Place, *, to: str, counted: Sequence[str]
) -> Confirmed | AlreadySent | TooLate:
    """Settle a message of unknown outcome as sent, because a person knows that its recipient has it."""
    names = [*layout(place), *counted, keys.contacts(place.phone), keys.affinity(to), keys.UNCONFIRMED]
    names.append(keys.unanswered(place.phone))
    return await scripts.ask(
        "confirm_message", names, head(place), became=Confirmed, already=AlreadySent, too_late=TooLate
    )


async def wake(scripts: Scripts, *phones: str) -> None:
    """Make these phones due now: a hold was lifted, a limit changed, a session reconnected."""
    if phones:
        await scripts.redis.zadd(keys.DUE, dict.fromkeys(phones, await scripts.now_ms()), lt=True)
        await scripts.redis.publish(keys.WAKE, phones[0])


async def mark_burst(scripts: Scripts, phone: str, *, session: str, submitted: int, burst_ms: int) -> bool:
    """Double the pauses of a phone that was given too many messages within a minute; False if they are doubled."""
    names = [keys.pace(phone), keys.EVENTS]
    return await scripts.whether("mark_burst", names, [phone, session, submitted, burst_ms], burst=True, already=False)
