"""Rerouting of waiting messages, and the mark of phones that were given too many messages at once."""

from dataclasses import dataclass

from wa_orchestrator.domain.message_failures import Failure
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
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
    return await fail(scripts, place, reason=Failure.SESSION_RELINKED, counted=keys.stats(session.id, day))


async def mark_burst(scripts: Scripts, phone: str, *, session: str, submitted: int, burst_ms: int) -> bool:
    """Double the pauses of a phone that was given too many messages within a minute; False if they are doubled."""
    names = [keys.pace(phone), keys.EVENTS]
    return await scripts.whether("mark_burst", names, [phone, session, submitted, burst_ms], burst=True, already=False)
