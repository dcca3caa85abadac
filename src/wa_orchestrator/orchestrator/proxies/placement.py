"""Proxy placement: moves sessions away from bad proxies and assigns free slots.

All sessions of a phone stay on one proxy: they move to one that has room for all of them, or wait together.
"""

import json
from collections.abc import Iterable, Sequence

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.proxies import proxy_choice
from wa_orchestrator.domain.proxies.proxy_choice import Load
from wa_orchestrator.domain.proxies.proxy_health import ProxyStatus
from wa_orchestrator.domain.sessions.session import Event, Reason
from wa_orchestrator.domain.stream_events import ProxyReason
from wa_orchestrator.orchestrator.proxies import idle_slots
from wa_orchestrator.orchestrator.sessions import transitions
from wa_orchestrator.store import proxies as proxy_store
from wa_orchestrator.store import records, sessions
from wa_orchestrator.store.engine.compare_and_set import Changed, compare_and_set
from wa_orchestrator.store.records import Proxy, Session
from wa_orchestrator.store.sessions import control_plane, slots

#: A session that moves for one of these follows its phone; nothing is wrong with the proxy it leaves.
_TO_THE_PHONES_PROXY = frozenset({ProxyReason.PROXY_GIVEN, ProxyReason.STICKY_FULL, ProxyReason.STICKY_PROXY})
_ASSIGN_EVERY_S = 0.5

log = structlog.get_logger(__name__)


def loads(proxies: Iterable[Proxy]) -> list[Load]:
    return [Load(proxy.id, len(proxy.sessions), proxy.status == ProxyStatus.OK) for proxy in proxies]


def eligible_proxies(proxies: Sequence[Proxy], held: Sequence[str], per_proxy: int, sticky: str) -> list[str]:
    """Return where a session may go, the best first, so that all sessions of its phone end up on one proxy.

    `held` has the proxy ('' = none) of each session of the phone that wants a slot, including the session itself.
    """
    healthy = {proxy.id: proxy for proxy in proxies if proxy.status == ProxyStatus.OK}
    taken = sorted({proxy for proxy in held if proxy in healthy}, key=lambda proxy: (proxy != sticky, proxy))
    if taken:
        return taken[:1]
    needed = len(held)
    roomy = [each for each in loads(healthy.values()) if each.sessions + needed <= per_proxy]
    ranked = proxy_choice.ranked(roomy, per_proxy)
    return [sticky] if sticky in ranked else ranked


async def drain(context: Context, proxy_id: str, reason: ProxyReason) -> None:
    """Move all sessions away from a proxy that was marked bad.

    The start queue spreads their starts. Log lines and records name the proxy by id only.
    """
    proxy = await records.proxy(context.scripts, proxy_id)
    if proxy is None or not proxy.sessions:
        return
    found = await records.sessions(context.scripts, proxy.sessions)
    leaving = sorted(found, key=lambda session: (session.phone, session.id))
    log.warning("proxy.drained", proxy=proxy_id, sessions=len(leaving), reason=reason)
    for session in leaving:
        if session.proxy == proxy_id:
            if not _keeps_proxy(session, proxy):
                await transitions.apply(context, session.id, Event.PROXY_LOST)
            await assign_slot(context, session, reason)
        elif session.leaving == proxy_id and transitions.wants_worker(session):
            # An operator moved it, from its next restart on: that is now.
            await transitions.request_restart(context, session, Event.FAILED_OVER)


def _keeps_proxy(session: Session, proxy: Proxy | None) -> bool:
    """Whether a session stays on a bad proxy: the operator chose it, or the account is banned.

    Draining the proxy takes the choice back. A banned account that logs in from elsewhere looks worse still.
    """
    return bool(session.proxy_given or session.banned) and proxy is not None and not proxy.draining


@compare_and_set("Session {session.id}")
async def assign_slot(context: Context, session: Session, reason: ProxyReason) -> bool | Changed:
    """Move a session that lost its slot to another proxy; False if it must wait, for room or for its given proxy."""
    current = await records.session(context.scripts, session.id)
    if current is None or current.proxy not in ("", session.proxy):
        return current is not None  # deleted, or moved by another call
    proxies = await records.proxies(context.scripts)
    if _keeps_proxy(current, next((each for each in proxies if each.id == current.proxy), None)):
        return await _wait_for_given_proxy(context, current)
    if not current.first_connected_at and await _linked_session_waits(context):
        await wait_for_slot(context, current)
        return False
    sticky = await slots.sticky_proxy(context.scripts, current.phone)
    held = [each.proxy for each in await _siblings(context, current)]
    per_proxy = context.settings.max_sessions_per_proxy
    candidates = eligible_proxies(_allowed(current, proxies, sticky), held, per_proxy, sticky)
    return await _move(context, current, reason, candidates)


def _allowed(session: Session, proxies: list[Proxy], sticky: str) -> list[Proxy]:
    """Return the proxies a session may use. A banned account must not log in from elsewhere while its own exists."""
    own = [each for each in proxies if each.id == sticky]
    return own if session.banned and own else proxies


async def _move(context: Context, session: Session, reason: ProxyReason, candidates: Sequence[str]) -> bool | Changed:
    flight = slots.Move(session.id, session.proxy, session.phone, reason, candidates)
    match await slots.move(context.scripts, flight, per_proxy=context.settings.max_sessions_per_proxy):
        case Changed() as changed:
            return changed
        case slots.Moved(proxy_id):
            await _slot_assigned(context, session, proxy_id, reason)
            return True
        case sessions.NoRoom():
            await wait_for_slot(context, session)
            return False


async def _siblings(context: Context, session: Session) -> list[Session]:
    """Return all sessions of a session's phone that want a worker, always including the session itself."""
    others = [each for each in await records.sessions_of_phone(context.scripts, session.phone) if each.id != session.id]
    return [session, *(each for each in others if transitions.wants_worker(each))]


async def _wait_for_given_proxy(context: Context, session: Session) -> bool:
    if transitions.wants_worker(session) and session.reason != Reason.GIVEN_PROXY_BAD:
        log.warning("session.given_proxy_bad", session=session.id, proxy=session.proxy)
        await transitions.request_restart(context, session, Event.GIVEN_PROXY_LOST)
    return False


async def _slot_assigned(context: Context, session: Session, proxy_id: str, reason: ProxyReason) -> None:
    await slots.remove_waiting(context.scripts, [session.id])
    log.info("session.moved", session=session.id, proxy=proxy_id)
    current = await records.session(context.scripts, session.id)
    if current is not None:
        event = Event.STICKY_PROXY_FOUND if reason in _TO_THE_PHONES_PROXY else Event.FAILED_OVER
        await transitions.request_restart(context, current, event)


async def wait_for_slot(context: Context, session: Session) -> None:
    """Let a session that has no slot wait for one, and say so."""
    first = await slots.add_waiting(context.scripts, session.id)
    current = await records.session(context.scripts, session.id)
    # Two calls drain a proxy at once: the second has just written that the session moves, so write the wait again.
    if current is not None and (first or current.reason != Reason.WAITING_FOR_PROXY):
        await transitions.request_restart(context, current, Event.NO_CAPACITY)
    if first:
        log.warning("session.waiting_for_proxy", session=session.id)


async def _linked_session_waits(context: Context) -> bool:
    """Whether a linked session waits for a slot: it comes before all that nobody has scanned yet."""
    waiting = await records.sessions(context.scripts, await slots.waiting(context.scripts))
    return any(each.first_connected_at and not each.proxy and transitions.wants_worker(each) for each in waiting)


async def assign_waiting(context: Context) -> float:
    """Assign slots to waiting sessions, linked ones first, then the longest waiting."""
    ids = await slots.waiting(context.scripts)
    found = await records.sessions(context.scripts, ids)
    waiting = [session for session in found if not session.proxy and transitions.wants_worker(session)]
    await slots.remove_waiting(context.scripts, ids - {session.id for session in waiting})
    for session in sorted(waiting, key=lambda each: (not each.first_connected_at, each.changed_at, each.id)):
        assigned = await assign_slot(context, session, ProxyReason.WAITED_FOR_PROXY)
        if session.first_connected_at and not assigned:
            await _make_room(context, session)
    return _ASSIGN_EVERY_S


async def _make_room(context: Context, session: Session) -> None:
    """Let sessions that cannot use their slots give them to a linked one that waits.

    Each slot becomes free when its last worker has ended; the next round assigns it.
    """
    scripts = context.scripts
    held = [each.proxy for each in await _siblings(context, session)]
    sticky = await slots.sticky_proxy(scripts, session.phone)
    proxies = _allowed(session, await records.proxies(scripts), sticky)
    every = await records.sessions(scripts)
    for idle in idle_slots.to_release(proxies, every, held, context.settings.max_sessions_per_proxy, sticky):
        move = slots.Move(idle.id, idle.proxy, idle.phone, ProxyReason.GAVE_WAY, version=idle.version)
        if isinstance(await slots.move(scripts, move, per_proxy=0), sessions.NoRoom):
            log.info("session.gave_way", session=idle.id, proxy=idle.proxy, waiting=session.id)
            await control_plane.request_attention(scripts, idle.id)


def follows(session: Session, proxy_id: str) -> bool:
    """Whether a session leaves its proxy when its phone is bound to this one. Before the scan a given proxy stays."""
    is_given = bool(session.proxy_given) and not session.first_connected_at
    return session.proxy not in ("", proxy_id) and not is_given


async def move_phone_sessions(context: Context, phone: str, proxy_id: str, reason: ProxyReason) -> None:
    """Move the phone's other sessions to the proxy that it is bound to now, as far as it has room and is not bad."""
    for session in await records.sessions_of_phone(context.scripts, phone):
        await _move_to(context, session.id, proxy_id, reason)


@compare_and_set("Session {session_id}")
async def _move_to(context: Context, session_id: str, proxy_id: str, reason: ProxyReason) -> bool | Changed:
    session = await records.session(context.scripts, session_id)
    proxy = await records.proxy(context.scripts, proxy_id)
    most = context.settings.max_sessions_per_proxy
    takes_it = proxy is not None and proxy.status == ProxyStatus.OK and len(proxy.sessions) < most
    if session is None or not follows(session, proxy_id) or not takes_it:
        return False  # it keeps its slot
    return await _move(context, session, reason, [proxy_id])


async def inventory(context: Context) -> dict[str, int]:
    """Count the slots of healthy proxies, the free ones, and the sessions that wait for one."""
    proxies = await records.proxies(context.scripts)
    per_proxy = context.settings.max_sessions_per_proxy
    healthy = [each for each in loads(proxies) if each.healthy]
    return {
        "proxies": len(proxies),
        "healthy": len(healthy),
        "slots": per_proxy * len(healthy),
        "free": sum(max(0, per_proxy - each.sessions) for each in healthy),
        "waiting": len(await slots.waiting(context.scripts)),
    }


async def report_inventory(context: Context) -> None:
    """Tell people once when free slots begin to run low: the pool is nearly full, or its proxies die."""
    counted = await inventory(context)
    few = counted["proxies"] > 0 and counted["free"] < context.settings.low_inventory_slots
    await proxy_store.report_inventory(context.scripts, json.dumps(counted) if few or counted["waiting"] else "")
