"""Where a session sits: its phone and its proxy are tied together, it moves to another proxy, it leaves an old seat."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts, flat, unexpected
from wa_orchestrator.store.sessions import Changed, Fenced, NoRoom, PhoneFull, seats_of


@dataclass(frozen=True, slots=True)
class Bound:
    """Phone, proxy and session belong together now. `how`: first, same, given, sticky_bad, sticky_full."""

    how: str


@dataclass(frozen=True, slots=True)
class Moved:
    """The session has its seat on this proxy now; its worker must be started anew."""

    proxy: str


@dataclass(frozen=True, slots=True)
class Binding:
    """What a CONNECTED report says and what the server saw when it read the session; `was` is the phone it had then."""

    epoch: int
    phone: str
    sticky: str
    own: str
    given: str = ""
    was: str = ""
    fields: Mapping[str, str | int] = field(default_factory=dict)


async def bind(
    scripts: Scripts, session_id: str, binding: Binding, *, per_proxy: int, per_phone: int
) -> Bound | Moved | PhoneFull | Changed | Fenced:
    """Tie phone, proxy and session together at CONNECTED, or move the session to the phone's own proxy."""
    names = [
        keys.session(session_id),
        keys.temporary_binding(session_id),
        keys.sticky(binding.phone),
        keys.sticky_history(binding.phone),
        keys.sessions_of_phone(binding.phone),
        keys.SESSIONS_ACTIVE,
        keys.session_events(session_id),
        keys.EVENTS,
        keys.proxy(binding.sticky),
        keys.sessions_of_proxy(binding.sticky),
        keys.DUE,
        keys.sessions_of_phone(binding.was),
    ]
    args: list[str | int | float] = [
        session_id,
        binding.epoch,
        binding.phone,
        binding.sticky,
        binding.own,
        per_proxy,
        per_phone,
        binding.given,
        binding.was,
    ]
    reply = await scripts.run("bind", names, [*args, *flat(binding.fields)])
    match reply:
        case ["bound", how]:
            return Bound(str(how))
        case ["moved", proxy]:
            return Moved(str(proxy))
        case ["phone_full", count]:
            return PhoneFull(int(count))
        case ["changed"]:
            return Changed()
        case ["fenced", epoch]:
            return Fenced(int(epoch))
        case _:
            raise unexpected("bind", reply)


@dataclass(frozen=True, slots=True)
class Flight:
    """A session that must leave its proxy (or waits without one), and where it may go."""

    session: str
    proxy: str
    phone: str
    reason: str
    candidates: Sequence[str]


async def fail_over(scripts: Scripts, flight: Flight, *, per_proxy: int) -> Moved | NoRoom | Changed:
    """Free the old seat and take one of the candidates', in one step; the phone's binding goes along."""
    names = [
        keys.session(flight.session),
        keys.sessions_of_proxy(flight.proxy),
        keys.sticky(flight.phone),
        keys.sticky_history(flight.phone),
        keys.session_events(flight.session),
        keys.EVENTS,
        keys.temporary_binding(flight.session),
        *seats_of(flight.candidates),
    ]
    args: list[str | int | float] = [
        flight.session,
        flight.proxy,
        per_proxy,
        flight.phone,
        flight.reason,
        len(flight.candidates),
    ]
    reply = await scripts.run("failover", names, [*args, *flight.candidates])
    match reply:
        case ["moved", proxy]:
            return Moved(str(proxy))
        case ["no_room"]:
            return NoRoom()
        case ["changed", _]:
            return Changed()
        case _:
            raise unexpected("failover", reply)


async def vacate(scripts: Scripts, session_id: str) -> None:
    """Free the seat that a session's worker kept on the proxy it has left; no worker of it may run."""
    leaving = str(await scripts.redis.hget(keys.session(session_id), "leaving") or "")
    if not leaving:
        return
    names = [keys.session(session_id), keys.sessions_of_proxy(leaving)]
    reply = await scripts.run("vacate", names, [session_id, leaving])
    if reply[0] not in ("vacated", "kept"):
        raise unexpected("vacate", reply)


async def taken_along(scripts: Scripts, session_id: str, left: str) -> None:
    """Forget which phones a session has left, unless it has left another one since `left` was read."""
    reply = await scripts.run("taken_along", [keys.session(session_id)], [left])
    if reply[0] not in ("cleared", "kept"):
        raise unexpected("taken_along", reply)
