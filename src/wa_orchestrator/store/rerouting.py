"""Another sender for a message that waits, and the mark of a phone that was given too much at once."""

from dataclasses import dataclass

from wa_orchestrator.store import keys
from wa_orchestrator.store.places import Place, head, layout
from wa_orchestrator.store.queueing import Gone, TooLate
from wa_orchestrator.store.scripts import Scripts, unexpected


@dataclass(frozen=True, slots=True)
class Rerouted:
    """It is a job again, for another phone."""


async def reroute(scripts: Scripts, place: Place, *, phone: str, session: str) -> Rerouted | TooLate | Gone:
    """Give a waiting message another sender. `place` is where it stands now; it keeps its order of acceptance."""
    names = [*layout(place), keys.GATEWAY_JOBS, keys.GATEWAY_WAITING, keys.SCHEDULED]
    reply = await scripts.run("reroute", names, [*head(place), phone, session])
    match reply:
        case ["rerouted"]:
            return Rerouted()
        case ["too_late", status]:
            return TooLate(str(status))
        case ["unknown" | "moved"]:
            return Gone()
        case _:
            raise unexpected("reroute", reply)


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
    reply = await scripts.run("burst", [keys.pace(phone), keys.EVENTS], [phone, session, submitted, burst_ms])
    match reply:
        case ["burst", until]:
            return Burst(int(until))
        case ["already", _]:
            return MarkedBefore()
        case _:
            raise unexpected("burst", reply)
