"""Handlers of worker events about a session: codes, disconnects, proxy errors, pings."""

from functools import partial

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions.session import Event, Reason, State
from wa_orchestrator.domain.workers import worker_events
from wa_orchestrator.domain.workers.worker_events import (
    Disconnected,
    PairingCodeShown,
    PasskeyReport,
    Payload,
    Ping,
    QrCode,
    WorkerEvent,
)
from wa_orchestrator.orchestrator.api.workers.events import Handlers, OneStep
from wa_orchestrator.orchestrator.messages import ban_hold
from wa_orchestrator.orchestrator.proxies.health import ProxyHealth
from wa_orchestrator.orchestrator.sessions import phone_binding, transitions
from wa_orchestrator.orchestrator.workers import event_refusals
from wa_orchestrator.store import sessions
from wa_orchestrator.store.events import worker_events as received
from wa_orchestrator.store.events.worker_events import EventDelivery
from wa_orchestrator.store.records import Session, SessionChanges
from wa_orchestrator.store.sessions import control_plane, link_codes, passkeys
from wa_orchestrator.store.sessions.link_codes import StoredLinkCode
from wa_orchestrator.store.sessions.passkeys import PasskeyCeremony

#: A temporary ban without an end is assumed to last a day.
_UNKNOWN_BAN_MS = 24 * 3600 * 1000
_BANS = {Event.BANNED, Event.TEMPORARILY_BANNED}
log = structlog.get_logger(__name__)


def handlers(proxy_health: ProxyHealth) -> Handlers:
    changed = partial(_changed, proxy_health)
    return {
        worker_events.QrCode: _code_shown,
        worker_events.PairingCodeShown: _code_shown,
        worker_events.PasskeyReport: _passkey,
        worker_events.Connected: phone_binding.connected,
        worker_events.Disconnected: changed,
        worker_events.StatusChange: changed,
        worker_events.AuthFailure: changed,
        worker_events.ProxyError: changed,
        worker_events.Ping: OneStep(_pinged),
    }


async def _code_shown(context: Context, session: Session, report: WorkerEvent[QrCode | PairingCodeShown]) -> None:
    match report.payload:
        case QrCode(qr, expires_at_ms, renewed):
            code = StoredLinkCode(qr, "", expires_at_ms, report.at_ms)
            event = Event.QR_RENEWED if renewed else Event.QR_SHOWN
        case PairingCodeShown(text, expires_at_ms):
            code, event = StoredLinkCode("", text, expires_at_ms, report.at_ms), Event.CODE_SHOWN
    after = await transitions.apply_report(context, session, event, report)
    stored = await link_codes.get(context.scripts, session.id)
    # A renewed secret comes within the life of the code that it replaces.
    is_renewed = stored is not None and (event is Event.QR_RENEWED and stored.at_ms < code.at_ms)
    newer = stored is None or is_renewed or stored.expires_at_ms < code.expires_at_ms
    if after is not None and after.status == State.QR_READY and newer:
        await link_codes.put(context.scripts, session.id, code)
    if after is not None and after.status == State.QR_READY and not session.first_connected_at and not after.code_at:
        # Only for credentials that were never online: those of a linked session end with its logout, and a worker that
        # shows a code before that has lost them, or lies.
        await sessions.update(context.scripts, session.id, SessionChanges(code_at=await context.scripts.now_ms()))


async def _passkey(context: Context, session: Session, report: WorkerEvent[PasskeyReport]) -> None:
    told = report.payload
    event = worker_events.to_session_event(told)
    if event is not None:
        await transitions.apply_report(context, session, event, report)
    known = await passkeys.get(context.scripts, session.id)
    if known is not None and (known.epoch, known.at_ms) > (session.epoch, report.at_ms):
        return  # a later step was reported already
    ceremony = PasskeyCeremony(
        told.stage,
        session.epoch,
        report.at_ms,
        told.options,
        told.expires_at_ms,
        told.code,
        told.auto,
        _refusal_before(known, session, told) or told.reason,
        told.retry,
    )
    await passkeys.put(context.scripts, session.id, ceremony)
    log.info("session.passkey", session=session.id, stage=told.stage, reason=told.reason)


def _refusal_before(known: PasskeyCeremony | None, session: Session, told: PasskeyReport) -> str:
    """Return why WhatsApp asks once more: the next request follows the failure at once, and would hide it."""
    is_next = known is not None and (known.epoch, known.retry) == (session.epoch, "new")
    return known.reason if known is not None and is_next and told.stage == "required" else ""


async def _pinged(context: Context, delivery: EventDelivery, report: WorkerEvent[Ping]) -> None:
    ping = report.payload
    fields = SessionChanges(
        ping_socket=ping.socket,
        ping_lag_ms=ping.lag_ms,
        ping_rss_bytes=ping.rss_bytes,
        last_traffic_at=ping.last_traffic_at_ms,
    )
    event_refusals.require_accepted(await received.accept_ping(context.scripts, delivery, fields))


async def _changed(proxy_health: ProxyHealth, context: Context, session: Session, report: WorkerEvent[Payload]) -> None:
    event = worker_events.to_session_event(report.payload)
    if event is not None:
        standing = transitions.after_report(session, event, report, session.epoch)
        if event in _BANS and standing.state is State.FAILED:
            # Before the session fails: then its worker is stopped, and could not report it again after a crash.
            await _hold(context, session, event, report)
        after = await transitions.apply_report(context, session, event, report)
        if after is not None:
            await _follow(context, after, event, report)
    if worker_events.mentions_proxy(report.payload) and session.proxy and transitions.wants_worker(session):
        log.info("proxy.failure_reported", session=session.id, proxy=session.proxy, type=report.type)
        proxy_health.report_failure(session.proxy, session.id, session.epoch, report.at_ms)


async def _follow(context: Context, after: Session, event: Event, report: WorkerEvent[Payload]) -> None:
    """Do what a logout, a ban or a refused version requires. Each step may be repeated."""
    if event is Event.CLIENT_REFUSED and isinstance(report.payload, Disconnected):
        refused = SessionChanges(refused_revision=report.payload.revision)
        await sessions.update(context.scripts, after.id, refused)
    if event is Event.LOGGED_OUT and after.reason == Reason.LOGGED_OUT:
        await sessions.update(context.scripts, after.id, SessionChanges(discard=True, restart_epoch=after.epoch))
        await control_plane.request_attention(context.scripts, after.id)
    if event in _BANS and after.status == State.FAILED:
        await _hold(context, after, event, report)


async def _hold(context: Context, session: Session, event: Event, report: WorkerEvent[Payload]) -> None:
    """Hold a banned phone's messages until the ban ends; a permanent ban has no end."""
    until = None
    if event is Event.TEMPORARILY_BANNED:
        ends = report.payload.expires_at_ms if isinstance(report.payload, Disconnected) else None
        until = ends or await context.scripts.now_ms() + _UNKNOWN_BAN_MS
    await ban_hold.place(context, session, until_ms=until)
    fields = SessionChanges(ban_ends_at=until or 0, banned=event is Event.BANNED)
    await sessions.update(context.scripts, session.id, fields)
