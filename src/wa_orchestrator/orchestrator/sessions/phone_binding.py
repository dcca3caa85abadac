"""What happens when a phone links: its number, its proxy and the session are tied together."""

import json

import structlog

from wa_orchestrator.domain.ids import Phone
from wa_orchestrator.domain import phone as phones
from wa_orchestrator.domain import session_standing as standings
from wa_orchestrator.domain.worker_events import Connected, WorkerEvent
from wa_orchestrator.domain.session import Event, State
from wa_orchestrator.errors import Broken
from wa_orchestrator.orchestrator.proxies import placement
from wa_orchestrator.orchestrator.sessions import phone_change, transitions
from wa_orchestrator.orchestrator.workers import command_queue
from wa_orchestrator.store import event_stream, keys, records, sessions, slots
from wa_orchestrator.store.records import Session, SessionChanges
from wa_orchestrator.orchestrator.workers import tokens
from wa_orchestrator.context import Context
from wa_orchestrator.domain.stream_events import EventType, SessionRejected

_TRIES = 20
log = structlog.get_logger(__name__)


async def connected(context: Context, session: Session, told: WorkerEvent) -> None:
    """Take in CONNECTED. The temporary binding becomes the phone's own, or yields to the one it has."""
    await _bind(context, session, told)
    await phone_change.finish_phone_change(context, session.id)


async def _bind(context: Context, session: Session, told: WorkerEvent) -> None:
    payload = told.payload
    if not isinstance(payload, Connected):
        raise Broken("this handler is for CONNECTED only")
    phone = phones.parse(payload.phone_number)
    current: Session | None = session
    for _ in range(_TRIES):
        if current is None or current.epoch != session.epoch:
            raise tokens.fenced(current.epoch if current else 0)
        after = transitions.after_report(transitions.standing_of(current), Event.CONNECTED, told, session.epoch)
        if after.state is not State.CONNECTED and current.phone == phone:
            await transitions.apply_report(context, current, Event.CONNECTED, told)
            return
        binding = await _binding(context, current, phone, payload, standings.encode(after))
        outcome = await slots.bind(
            context.scripts,
            session.id,
            binding,
            per_proxy=context.settings.max_sessions_per_proxy,
            per_phone=context.settings.max_sessions_per_phone,
        )
        if not isinstance(outcome, sessions.Changed):
            await _follow(context, current, phone, outcome)
            await _restate(context, session.id, after)
            return
        current = await records.session(context.scripts, session.id)
    raise Broken(f"session {session.id} changed {_TRIES} times while it was bound")


async def _binding(
    context: Context, session: Session, phone: str, payload: Connected, standing: str
) -> slots.Binding:
    sticky = str(await context.redis.get(keys.sticky(phone)) or "")
    fields = SessionChanges(
        standing=standing, jid=payload.jid, lid=payload.lid or "", fingerprint=payload.fingerprint or ""
    )
    return slots.Binding(session.epoch, phone, sticky, session.proxy, session.proxy_given, session.phone, fields)


async def _follow(
    context: Context,
    session: Session,
    phone: str,
    outcome: slots.Bound | slots.Moved | sessions.PhoneFull | sessions.Fenced,
) -> None:
    match outcome:
        case sessions.Fenced(epoch):
            raise tokens.fenced(epoch)
        case sessions.PhoneFull(count):
            await _turn_away(context, session, phone, count)
            return
        case slots.Moved(proxy_id):
            log.info("session.moves_to_sticky", session=session.id, proxy=proxy_id)
            current = await records.session(context.scripts, session.id)
            if current is not None:
                await transitions.request_restart(context, current, Event.STICKY_PROXY_FOUND)
        case slots.Bound(how):
            log.info("session.connected", session=session.id, phone=phone, binding=how)
            # The operator's word counts once; from now on the proxy is the phone's own.
            await sessions.note(context.scripts, session.id, SessionChanges(proxy_given="", missed_at=0))
            await context.redis.delete(keys.qr(session.id))
            if how == "given":
                await placement.move_phone_sessions(context, phone, session.proxy)


async def _turn_away(context: Context, session: Session, phone: str, count: int) -> None:
    """Unlink a device that is one too many for its phone; the session then offers a new code."""
    log.warning("session.phone_full", session=session.id, phone=phone, sessions=count)
    rejected = SessionRejected(session.id, "PHONE_FULL", Phone(phone))
    await event_stream.emit(context.scripts, EventType.SESSION_TURNED_AWAY, rejected, history=session.id)
    await command_queue.push(context, session.id, "logout")


async def _restate(context: Context, session_id: str, after: standings.Standing) -> None:
    """Put back the state that later reports gave, when CONNECTED came in late and only its phone was news."""
    if after.state is State.CONNECTED:
        return
    session = await records.session(context.scripts, session_id)
    if session is None or json.loads(session.standing or "{}").get("state") != after.state:
        return
    fields = SessionChanges(standing=standings.encode(after))
    step = sessions.Step(session.version, after.state, after.reason or "", Event.CONNECTED, None, fields)
    await sessions.advance(context.scripts, session_id, step)
