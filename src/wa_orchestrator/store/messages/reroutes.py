"""Rerouting of waiting messages, and the mark of phones that were given too many messages at once."""

from dataclasses import dataclass

from wa_orchestrator.domain.message_failures import Failure
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts, unexpected
from wa_orchestrator.store.messages.message_keys import Place, head, layout
from wa_orchestrator.store.messages.queues import Ended, Gone, TooLate, fail
from wa_orchestrator.store.records import Message, Session


@dataclass(frozen=True, slots=True)
class Rerouted:
    """It is a job again, for another phone."""


async def reroute(scripts: Scripts, place: Place, *, phone: str, session: str) -> Rerouted | TooLate | Gone:
    """Assign a waiting message to another sender, who gets the conversation. It keeps its order of acceptance."""
    to = await scripts.redis.hget(keys.message(place.message), "to")
    names = [*layout(place), keys.GATEWAY_JOBS, keys.GATEWAY_WAITING, keys.SCHEDULED, keys.affinity(str(to or ""))]
    names += [keys.later(place.phone), keys.later(phone)]
    reply = await scripts.run("reroute_message", names, [*head(place), phone, session])
    match reply:
        case ["rerouted"]:
            return Rerouted()
        case ["too_late", status]:
            return TooLate(str(status))
        case ["unknown" | "moved"]:
            return Gone()
        case _:
            raise unexpected("reroute_message", reply)


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
    return await fail(scripts, place, reason=Failure.SESSION_RELINKED, counted=keys.stats(session.id, day))


@dataclass(frozen=True, slots=True)
class Burst:
    """The phone is marked now; its pauses are doubled until then."""

    until_ms: int


@dataclass(frozen=True, slots=True)
class MarkedBefore:
    """The phone was marked before; no event was emitted."""


async def mark_burst(
    scripts: Scripts, phone: str, *, session: str, submitted: int, burst_ms: int
) -> Burst | MarkedBefore:
    """Mark a phone that was given too many messages within a minute."""
    reply = await scripts.run("mark_burst", [keys.pace(phone), keys.EVENTS], [phone, session, submitted, burst_ms])
    match reply:
        case ["burst", until]:
            return Burst(int(until))
        case ["already", _]:
            return MarkedBefore()
        case _:
            raise unexpected("mark_burst", reply)
