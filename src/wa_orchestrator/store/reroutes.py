"""Another sender for a message that waits, and the mark of a phone that was given too much at once."""

from dataclasses import dataclass

from wa_orchestrator.domain.message_failures import Failure
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts, unexpected
from wa_orchestrator.store.message_keys import Place, head, layout
from wa_orchestrator.store.queues import Ended, Gone, TooLate, fail
from wa_orchestrator.store.records import Message, Session


@dataclass(frozen=True, slots=True)
class Rerouted:
    """It is a job again, for another phone."""


async def reroute(scripts: Scripts, place: Place, *, phone: str, session: str) -> Rerouted | TooLate | Gone:
    """Give a waiting message another sender. `place` is where it stands now; it keeps its order of acceptance."""
    names = [*layout(place), keys.GATEWAY_JOBS, keys.GATEWAY_WAITING, keys.SCHEDULED]
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


async def take_along(
    scripts: Scripts, message: Message, session: Session, *, day: str
) -> Rerouted | Ended | TooLate | Gone:
    """Let a message follow its session to the phone which that has now.

    One that was tried stays behind and has failed: its recipient may have it, and would read it twice.
    """
    place = Place(message.id, message.phone, message.session)
    moved = await reroute(scripts, place, phone=session.phone, session=session.id)
    if moved != TooLate("tried"):
        return moved
    return await fail(scripts, place, reason=Failure.SESSION_RELINKED, counted=keys.stats(session.id, day))


@dataclass(frozen=True, slots=True)
class Burst:
    """The phone was marked just now; its pauses are doubled until then."""

    until_ms: int


@dataclass(frozen=True, slots=True)
class MarkedBefore:
    """It was marked already, and nobody needs to hear of it again."""


async def mark_burst(
    scripts: Scripts, phone: str, *, session: str, submitted: int, burst_ms: int
) -> Burst | MarkedBefore:
    """Mark a phone to which far too much was submitted within a minute."""
    reply = await scripts.run("mark_burst", [keys.pace(phone), keys.EVENTS], [phone, session, submitted, burst_ms])
    match reply:
        case ["burst", until]:
            return Burst(int(until))
        case ["already", _]:
            return MarkedBefore()
        case _:
            raise unexpected("mark_burst", reply)
