"""Slots on proxies: a phone is bound to a proxy, a session moves to another one, an old slot is released."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from wa_orchestrator.domain.proxies.proxy_move import MoveTime
from wa_orchestrator.domain.stream_events import ProxyReason
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.compare_and_set import Changed
from wa_orchestrator.store.engine.scripts import Argument, Scripts
from wa_orchestrator.store.outcomes import Fenced
from wa_orchestrator.store.record_codec import flat
from wa_orchestrator.store.records import Session, SessionChanges
from wa_orchestrator.store.sessions import NoRoom, PhoneFull, slot_keys


@dataclass(frozen=True, slots=True)
class Bound:
    """Phone, proxy and session are bound. `how`: first, same, given, sticky_bad, sticky_full."""

    how: str


@dataclass(frozen=True, slots=True)
class Moved:
    """The session has its slot on this proxy now; its worker must be replaced."""

    proxy: str


@dataclass(frozen=True, slots=True)
class Waits:
    """The phone's proxy is full, and its other sessions find no room on the session's own: it waits for a slot."""


@dataclass(frozen=True, slots=True)
class Binding:
    """A CONNECTED report and the session as the server read it; `was` is the phone it had then."""

    epoch: int
    phone: str
    sticky: str
    own: str
    version: int
    others: int = 0
    """Other sessions of the phone."""
    followers: int = 0
    """Those of them that would follow the session to its own proxy."""
    given: str = ""
    was: str = ""
    fields: SessionChanges = field(default_factory=SessionChanges)


async def bind(
    scripts: Scripts, session_id: str, binding: Binding, *, per_proxy: int, per_phone: int
) -> Bound | Moved | Waits | PhoneFull | Changed | Fenced:
    """Bind phone, proxy and session at CONNECTED, or move the session to the phone's sticky proxy."""
    names = [
        keys.session(session_id), keys.temporary_binding(session_id), keys.sticky(binding.phone),
        keys.sticky_history(binding.phone), keys.sessions_of_phone(binding.phone), keys.SESSIONS_ACTIVE,
        keys.session_events(session_id), keys.EVENTS, keys.proxy(binding.sticky),
        keys.sessions_of_proxy(binding.sticky), keys.DUE, keys.sessions_of_phone(binding.was),
        keys.sessions_of_proxy(binding.own),
    ]  # fmt: skip
    args: list[Argument] = [session_id, binding.epoch, binding.phone, binding.sticky, binding.own, per_proxy, per_phone]
    args += [binding.given, binding.was, binding.version, binding.others, binding.followers, *flat(binding.fields)]
    return await scripts.ask(
        "bind_phone",
        names,
        args,
        bound=Bound,
        moved=Moved,
        waits=Waits,
        phone_full=PhoneFull,
        changed=Changed,
        fenced=Fenced,
    )


@dataclass(frozen=True, slots=True)
class Move:
    """A session that must leave its proxy (or waits without one), and where it may go."""

    session: str
    proxy: str
    phone: str
    reason: ProxyReason
    candidates: Sequence[str] = ()
    version: int | str = ""
    """The version that the decision saw, where it depends on more than the proxy."""


async def move(scripts: Scripts, wanted: Move, *, per_proxy: int) -> Moved | NoRoom | Changed:
    """Take a slot of one of the candidates; the old one is kept until `release`. The phone's binding moves too."""
    names = [
        keys.session(wanted.session), keys.sessions_of_proxy(wanted.proxy), keys.sticky(wanted.phone),
        keys.sticky_history(wanted.phone), keys.session_events(wanted.session), keys.EVENTS,
        keys.temporary_binding(wanted.session), *slot_keys(wanted.candidates),
    ]  # fmt: skip
    args: list[Argument] = [wanted.session, wanted.proxy, per_proxy, wanted.phone, wanted.reason]
    args += [wanted.version, len(wanted.candidates), *wanted.candidates]
    return await scripts.ask("move_session", names, args, moved=Moved, no_room=NoRoom, changed=Changed)


@dataclass(frozen=True, slots=True)
class ChosenBad:
    """The chosen proxy does not work."""


async def move_phone(
    scripts: Scripts, movers: Sequence[Session], proxy: str, *, when: MoveTime, per_proxy: int
) -> Moved | ChosenBad | NoRoom | Changed:
    """Move all sessions of a phone to a proxy that an operator chose; the first is the one he named."""
    phone = movers[0].phone
    names = [
        keys.sticky(phone), keys.sticky_history(phone), keys.EVENTS, keys.sessions_of_phone(phone), keys.proxy(proxy),
        keys.sessions_of_proxy(proxy),
    ]  # fmt: skip
    args: list[Argument] = [phone, proxy, per_proxy, when, ProxyReason.CHOSEN]
    for each in movers:
        names += [keys.session(each.id), keys.session_events(each.id), keys.sessions_of_proxy(each.proxy)]
        names += [keys.temporary_binding(each.id)]
        args += [each.id, each.proxy, each.version]
    return await scripts.ask("move_phone", names, args, moved=Moved, bad=ChosenBad, no_room=NoRoom, changed=Changed)


async def release(scripts: Scripts, session_id: str) -> None:
    """Release the slot on the proxy that a session has left; none of its workers may run."""
    leaving = str(await scripts.redis.hget(keys.session(session_id), "leaving") or "")
    if not leaving:
        return
    names = [keys.session(session_id), keys.sessions_of_proxy(leaving)]
    await scripts.whether("release_slot", names, [session_id, leaving], released=True, kept=False)


async def clear_left_phone(scripts: Scripts, session_id: str, left: str) -> None:
    """Forget which phones a session has left, unless it has left another one since `left` was read."""
    await scripts.whether("clear_left_phone", [keys.session(session_id)], [left], cleared=True, kept=False)


async def sticky_proxy(scripts: Scripts, phone: str) -> str:
    """Return the proxy that is bound to a phone; '' if there is none."""
    return str(await scripts.redis.get(keys.sticky(phone)) or "") if phone else ""


async def waiting(scripts: Scripts) -> set[str]:
    ids: Any = await scripts.redis.smembers(keys.SESSIONS_WAITING)
    return set(ids)


async def add_waiting(scripts: Scripts, session_id: str) -> bool:
    """Let a session wait for a slot. Return whether it did not wait before."""
    return bool(await scripts.redis.sadd(keys.SESSIONS_WAITING, session_id))


async def remove_waiting(scripts: Scripts, session_ids: Collection[str]) -> None:
    if session_ids:
        await scripts.redis.srem(keys.SESSIONS_WAITING, *session_ids)
