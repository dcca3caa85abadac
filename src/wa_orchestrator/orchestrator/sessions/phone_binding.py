"""Phone binding: when a phone links, its number, its proxy and the session are bound to each other."""

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain import phone as phones
from wa_orchestrator.domain.ids import Phone
from wa_orchestrator.domain.sessions import phone_change
from wa_orchestrator.domain.sessions import standing as standings
from wa_orchestrator.domain.sessions.phone_change import LinkFacts, PhoneVerdict
from wa_orchestrator.domain.sessions.session import WANTS_WORKER, Event, Reason, State
from wa_orchestrator.domain.stream_events import EventType, ProxyReason, SessionChanged
from wa_orchestrator.domain.workers.worker_events import Connected, WorkerEvent
from wa_orchestrator.orchestrator.proxies import placement
from wa_orchestrator.orchestrator.sessions import queue_handover, relocation, transitions
from wa_orchestrator.orchestrator.workers import tokens
from wa_orchestrator.store import records, sessions
from wa_orchestrator.store.engine.compare_and_set import Changed, compare_and_set
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.outcomes import Fenced
from wa_orchestrator.store.records import Session, SessionChanges
from wa_orchestrator.store.sessions import client_version, commands, control_plane, link_codes, passkeys, slots

#: Why the phone's other sessions follow to the session's proxy: one phone, one exit. Where the binding stayed the same,
#: the server died before it had moved them. From a bad proxy they fail over.
_TAKES_SIBLINGS_ALONG = {
    "given": ProxyReason.PROXY_GIVEN,
    "sticky_full": ProxyReason.STICKY_FULL,
    "same": ProxyReason.STICKY_PROXY,
}
log = structlog.get_logger(__name__)


async def connected(context: Context, session: Session, report: WorkerEvent[Connected]) -> None:
    """Handle CONNECTED. The session's temporary proxy becomes the phone's own, or the session moves to that one."""
    await client_version.record_login(context.scripts, session.id, report.payload.revision)
    await _bind(context, session, report)
    await queue_handover.follow_to_new_phone(context, session.id)


@compare_and_set("Session {reporter.id}")
async def _bind(context: Context, reporter: Session, report: WorkerEvent[Connected]) -> Changed | None:
    session = await records.session(context.scripts, reporter.id)
    if session is None or session.epoch != reporter.epoch:
        raise tokens.fenced(session.epoch if session else 0)
    payload = report.payload
    phone = phones.parse(payload.phone_number)
    sticky = await slots.sticky_proxy(context.scripts, phone)
    others = [each for each in await records.sessions_of_phone(context.scripts, phone) if each.id != session.id]
    match phone_change.judge(phone, _facts(session, sticky, len(others))):
        case PhoneVerdict.CHANGED:
            await _fail(context, session, phone)
            return None
        case PhoneVerdict.IGNORED:
            return None
    after = transitions.after_report(session, Event.CONNECTED, report, session.epoch)
    if after.state is not State.CONNECTED and session.phone == phone:
        await transitions.apply_report(context, session, Event.CONNECTED, report)
        return None
    jid = payload.jid or f"{phone}@s.whatsapp.net"
    fields = SessionChanges(standing=standings.encode(after), unlinked_at=0)
    fields |= SessionChanges(jid=jid, lid=payload.lid or "", fingerprint=payload.fingerprint or "")
    binding = slots.Binding(
        session.epoch,
        phone,
        sticky,
        session.proxy,
        session.version,
        len(others),
        sum(placement.follows(each, session.proxy) for each in others),
        session.proxy_given,
        session.phone,
        fields,
    )
    outcome = await slots.bind(
        context.scripts,
        session.id,
        binding,
        per_proxy=context.settings.max_sessions_per_proxy,
        per_phone=context.settings.max_sessions_per_phone,
    )
    if isinstance(outcome, Changed):
        return outcome
    await _follow(context, session, phone, outcome)
    if after.state is not State.CONNECTED:
        await _restore_later_state(context, session.id, after)
    return None


def _facts(session: Session, sticky: str, others: int) -> LinkFacts:
    return LinkFacts(
        phone=session.phone,
        is_linked=session.first_connected_at > 0,
        has_code=session.code_at > 0,
        named_phone=session.named_phone,
        awaits_person=session.reason is Reason.PHONE_CHANGED,
        others=others,
        bound_elsewhere=sticky not in ("", session.proxy),
    )


async def _fail(context: Context, session: Session, phone: Phone) -> None:
    """Let a session that reports a phone which is not its own wait for a person. Nothing of that phone is touched."""
    log.error("session.phone_changed", session=session.id, phone=session.phone, reported_phone=phone)
    if session.status in WANTS_WORKER:
        await transitions.apply(context, session.id, Event.PHONE_CHANGED, SessionChanges(reported_phone=phone))
        await control_plane.request_attention(context.scripts, session.id)


async def _follow(
    context: Context,
    session: Session,
    phone: str,
    outcome: slots.Bound | slots.Moved | slots.Waits | sessions.PhoneFull | Fenced,
) -> None:
    match outcome:
        case Fenced(epoch):
            raise tokens.fenced(epoch)
        case sessions.PhoneFull(count):
            await _reject(context, session, phone, count)
        case slots.Moved(proxy_id):
            log.info("session.moved_to_sticky_proxy", session=session.id, proxy=proxy_id)
            current = await records.session(context.scripts, session.id)
            if current is not None:
                await transitions.request_restart(context, current, Event.STICKY_PROXY_FOUND)
        case slots.Waits():
            await placement.wait_for_slot(context, session)
        case slots.Bound(how):
            log.info("session.connected", session=session.id, phone=phone, binding=how)
            await sessions.update(context.scripts, session.id, SessionChanges(missed_at=0))
            await link_codes.delete(context.scripts, session.id)
            await passkeys.delete(context.scripts, session.id)
            await relocation.note_return(context, session)
            if how in _TAKES_SIBLINGS_ALONG:
                await placement.move_phone_sessions(context, phone, session.proxy, _TAKES_SIBLINGS_ALONG[how])


async def _reject(context: Context, session: Session, phone: str, count: int) -> None:
    """Log out a device that exceeds the sessions of its phone; the session then shows a new code."""
    log.warning("session.phone_full", session=session.id, phone=phone, sessions=count)
    rejected = SessionChanged(session.id, "PHONE_FULL", phone=Phone(phone))
    await event_stream.emit(context.scripts, EventType.SESSION_TURNED_AWAY, rejected, history=session.id)
    await commands.push(context.scripts, session.id, "logout")


@compare_and_set("Session {session_id}")
async def _restore_later_state(context: Context, session_id: str, after: standings.Standing) -> Changed | None:
    """Restore the state of reports that CONNECTED arrived after: only its phone number was new."""
    session = await records.session(context.scripts, session_id)
    if session is None or not session.standing or standings.decode(session.standing).state is not after.state:
        return None  # a newer report has decided
    step = transitions.step_to(session, after, Event.CONNECTED)
    outcome = await sessions.advance(context.scripts, session_id, step)
    return outcome if isinstance(outcome, Changed) else None
