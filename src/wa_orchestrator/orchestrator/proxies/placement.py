"""Moving sessions between proxies: away from a bad one, onto a free slot as soon as there is one.

All sessions of a phone stay on one proxy: they move to one that has room for all of them, or wait together.
"""

import json
from collections.abc import Iterable, Sequence

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain import proxy as domain
from wa_orchestrator.domain.proxy import Load, ProxyStatus
from wa_orchestrator.domain.session import Event, Reason
from wa_orchestrator.domain.stream_events import EventType, LowInventory, ProxyReason
from wa_orchestrator.orchestrator.sessions import transitions
from wa_orchestrator.store import event_stream, keys, records, sessions, slots
from wa_orchestrator.store.records import Proxy, Session

log = structlog.get_logger(__name__)


def loads(proxies: Iterable[Proxy]) -> list[Load]:
    """Say how full each proxy is."""
    return [Load(proxy.id, len(proxy.sessions), proxy.status == ProxyStatus.OK) for proxy in proxies]


def eligible_proxies(proxies: Sequence[Proxy], siblings: Sequence[Session], per_proxy: int, sticky: str) -> list[str]:
    """List where a session may go, the best first, so that all sessions of its phone end up on one proxy.

    `siblings` are all sessions of the phone that want a slot, the one itself included.
    """
    healthy = {proxy.id: proxy for proxy in proxies if proxy.status == ProxyStatus.OK}
    taken: list[str] = sorted({sibling.proxy for sibling in siblings if sibling.proxy in healthy})
    if taken:
        return taken[:1]
    needed = len(siblings)
    roomy = [each for each in loads(healthy.values()) if each.sessions + needed <= per_proxy]
    ranked = domain.ranked(roomy, per_proxy)
    return sorted(ranked, key=lambda proxy_id: proxy_id != sticky)


async def drain(context: Context, proxy_id: str, reason: ProxyReason) -> list[str]:
    """Move all sessions away from a proxy that was just marked bad. Gives their ids.

    The log line and the records name the proxy by id only. Starts are staggered by the provisioning queue.
    """
    proxy = await records.proxy(context.scripts, proxy_id)
    if proxy is None:
        return []
    found = await records.sessions(context.scripts, proxy.sessions)
    leaving = sorted(found, key=lambda session: (session.phone, session.id))
    log.warning("proxy.drained", proxy=proxy_id, sessions=len(leaving), reason=reason)
    for session in leaving:
        if session.proxy == proxy_id:
            await transitions.apply(context, session.id, Event.PROXY_LOST)
            await assign_slot(context, session, reason)
    return [session.id for session in leaving]


async def assign_slot(context: Context, session: Session, reason: ProxyReason) -> bool:
    """Take a slot for a session that lost its own; False when there is none, and then it waits for one."""
    for _ in range(10):
        proxies = await records.proxies(context.scripts)
        sticky = str(await context.redis.get(keys.sticky(session.phone)) or "") if session.phone else ""
        candidates = eligible_proxies(
            proxies, await siblings(context, session), context.settings.max_sessions_per_proxy, sticky
        )
        flight = slots.Flight(session.id, session.proxy, session.phone, reason, candidates)
        match await slots.fail_over(context.scripts, flight, per_proxy=context.settings.max_sessions_per_proxy):
            case slots.Moved(proxy_id):
                await _slot_assigned(context, session, proxy_id)
                return True
            case sessions.NoRoom():
                await _waits(context, session)
                return False
        again = await records.session(context.scripts, session.id)
        if again is None or again.proxy not in ("", session.proxy):
            return again is not None  # somebody else has moved it
        session = again
    return False


async def siblings(context: Context, session: Session) -> list[Session]:
    """Give all sessions of a session's phone that want a worker, itself always included."""
    if not session.phone:
        return [session]
    ids = await context.redis.smembers(keys.sessions_of_phone(session.phone))
    found = await records.sessions(context.scripts, [str(each) for each in ids if each != session.id])
    return [session, *(each for each in found if transitions.wants_worker(each))]


async def _slot_assigned(context: Context, session: Session, proxy_id: str) -> None:
    await context.redis.srem(keys.SESSIONS_WAITING, session.id)
    log.info("session.moved", session=session.id, proxy=proxy_id)
    current = await records.session(context.scripts, session.id)
    if current is not None:
        await transitions.request_restart(context, current, Event.FAILED_OVER)


async def _waits(context: Context, session: Session) -> None:
    first = await context.redis.sadd(keys.SESSIONS_WAITING, session.id)
    current = await records.session(context.scripts, session.id)
    # Two who drain a proxy at once: the second has just said that the session moves, and it must wait again.
    if current is not None and (first or current.reason != Reason.WAITING_FOR_PROXY):
        await transitions.request_restart(context, current, Event.NO_CAPACITY)
    if first:
        log.warning("session.waits_for_proxy", session=session.id)
        await publish_low_inventory(context)


async def assign_waiting(context: Context) -> int:
    """Give slots to those who wait, the longest waiting first, while there are any. Return how many got one."""
    ids = await context.redis.smembers(keys.SESSIONS_WAITING)
    if not ids:
        return 0
    waiting = await records.sessions(context.scripts, [str(each) for each in ids])
    gone = set(ids) - {session.id for session in waiting}
    settled = {session.id for session in waiting if session.proxy or not transitions.wants_worker(session)}
    if leave := gone | settled:
        await context.redis.srem(keys.SESSIONS_WAITING, *leave)
    assigned = 0
    for session in sorted(waiting, key=lambda each: (each.changed_at, each.id)):
        if session.id not in settled:
            assigned += await assign_slot(context, session, ProxyReason.WAITED_FOR_PROXY)
    return assigned


async def move_phone_sessions(context: Context, phone: str, proxy_id: str) -> None:
    """Bring the phone's other sessions to the proxy the operator gave it, where there is room for them."""
    ids = await context.redis.smembers(keys.sessions_of_phone(phone))
    for session in await records.sessions(context.scripts, [str(each) for each in ids]):
        proxy = await records.proxy(context.scripts, proxy_id)
        room = proxy is not None and len(proxy.sessions) < context.settings.max_sessions_per_proxy
        if session.proxy in ("", proxy_id) or not room:
            continue
        flight = slots.Flight(session.id, session.proxy, phone, ProxyReason.PROXY_GIVEN, [proxy_id])
        outcome = await slots.fail_over(context.scripts, flight, per_proxy=context.settings.max_sessions_per_proxy)
        if isinstance(outcome, slots.Moved):
            await _slot_assigned(context, session, proxy_id)
        elif isinstance(outcome, sessions.NoRoom):
            await _waits(context, session)


async def inventory(context: Context) -> dict[str, int]:
    """Count the slots: all of healthy proxies, the free ones, and the sessions that wait."""
    proxies = await records.proxies(context.scripts)
    most = context.settings.max_sessions_per_proxy
    healthy = [each for each in loads(proxies) if each.healthy]
    return {
        "proxies": len(proxies),
        "healthy": len(healthy),
        "seats": most * len(healthy),
        "free": sum(max(0, most - each.sessions) for each in healthy),
        "waiting": int(await context.redis.scard(keys.SESSIONS_WAITING)),
    }


async def publish_low_inventory(context: Context) -> None:
    """Put an event on the stream when slots run low; alerts are made of it."""
    counted = await inventory(context)
    if counted["free"] >= context.settings.low_inventory_slots and not counted["waiting"]:
        return
    low = LowInventory(json.dumps(counted))
    await event_stream.emit(context.scripts, EventType.PROXY_LOW_INVENTORY, low)
