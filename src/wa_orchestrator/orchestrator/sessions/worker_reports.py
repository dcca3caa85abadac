"""What becomes of a session by what its worker tells: codes, connections, ends, signs of life."""

import json

import structlog

from wa_orchestrator.domain import worker_events
from wa_orchestrator.domain.worker_events import Disconnected, PairingCodeShown, Ping, QrCode, WorkerEvent
from wa_orchestrator.domain.session import Event, State
from wa_orchestrator.orchestrator.api import holds
from wa_orchestrator.orchestrator.sessions import phone_binding, transitions
from wa_orchestrator.orchestrator.api.worker_events import Handlers
from wa_orchestrator.orchestrator.proxies.health import ProxyHealth
from wa_orchestrator.orchestrator.sessions.transitions import Fenced
from wa_orchestrator.store import keys, sessions
from wa_orchestrator.store.records import Session, SessionChanges
from wa_orchestrator.orchestrator.workers import tokens
from wa_orchestrator.context import Context

#: A temporary ban without an end is looked at again after a day.
_UNKNOWN_BAN_MS = 24 * 3600 * 1000
_BANS = {Event.BANNED, Event.TEMPORARILY_BANNED}
log = structlog.get_logger(__name__)


def handlers(proxy_health: ProxyHealth) -> Handlers:
    """Give what is done with each kind of report about a session."""
    reports = _Reports(proxy_health)
    return {
        worker_events.QrCode: reports.code_shown,
        worker_events.PairingCodeShown: reports.code_shown,
        worker_events.Connected: phone_binding.connected,
        worker_events.Disconnected: reports.changed,
        worker_events.StatusChange: reports.changed,
        worker_events.AuthFailure: reports.changed,
        worker_events.ProxyError: reports.changed,
        worker_events.Ping: reports.pinged,
    }


class _Reports:
    def __init__(self, proxy_health: ProxyHealth) -> None:
        self._proxy_health = proxy_health

    async def code_shown(self, context: Context, session: Session, told: WorkerEvent) -> None:
        match told.payload:
            case QrCode(qr, expires_at_ms):
                shown, event = {"qr": qr}, Event.QR_SHOWN
            case PairingCodeShown(code, expires_at_ms):
                shown, event = {"code": code}, Event.CODE_SHOWN
            case _:
                return
        after = await self._report(context, session, event, told)
        kept = await context.redis.get(keys.qr(session.id))
        older = kept is not None and json.loads(kept)["expires_at_ms"] >= expires_at_ms
        if after is not None and after.status == "qr_ready" and not older:
            record = json.dumps({**shown, "expires_at_ms": expires_at_ms, "at_ms": told.at_ms})
            await context.redis.set(keys.qr(session.id), record, pxat=expires_at_ms)
            await context.redis.publish(f"{keys.qr(session.id)}", "renewed")

    async def changed(self, context: Context, session: Session, told: WorkerEvent) -> None:
        blames_proxy = worker_events.mentions_proxy(told.payload)
        event = worker_events.to_session_event(told.payload)
        if event is not None:
            if event in _BANS and _would_fail(session, event, told):
                # Before the session fails: its worker is ended then, and could not tell it again after a crash.
                await _hold(context, session, event, told)
            after = await self._report(context, session, event, told)
            if after is not None:
                await self._follow(context, after, event, told)
        if blames_proxy and session.proxy and transitions.wants_worker(session):
            log.info("proxy.blamed", session=session.id, proxy=session.proxy, type=told.type)
            self._proxy_health.report_failure(session.proxy, session.id, session.epoch)

    async def pinged(self, context: Context, session: Session, told: WorkerEvent) -> None:
        match told.payload:
            case Ping(_, socket, lag_ms, rss_bytes, last_traffic_at_ms):
                fields = SessionChanges(
                    last_ping_at=await context.scripts.now_ms(),
                    ping_socket=socket,
                    ping_lag_ms=lag_ms,
                    ping_rss_bytes=rss_bytes,
                    last_traffic_at=last_traffic_at_ms or 0,
                )
                await sessions.note(context.scripts, session.id, fields)

    async def _report(self, context: Context, session: Session, event: Event, told: WorkerEvent) -> Session | None:
        outcome = await transitions.apply_report(context, session, event, told)
        if isinstance(outcome, Fenced):
            raise tokens.fenced(outcome.epoch)
        return outcome

    async def _follow(self, context: Context, after: Session, event: Event, told: WorkerEvent) -> None:
        """Do what an end asks for. Each of these may be done twice."""
        if event is Event.LOGGED_OUT and after.reason == "LOGGED_OUT":
            await sessions.note(context.scripts, after.id, SessionChanges(discard=True, restart_epoch=after.epoch))
            await transitions.request_attention(context, after.id)
        if event in _BANS and after.status == "failed":
            await _hold(context, after, event, told)


def _would_fail(session: Session, event: Event, told: WorkerEvent) -> bool:
    return transitions.after_report(transitions.standing_of(session), event, told, session.epoch).state is State.FAILED


async def _hold(context: Context, session: Session, event: Event, told: WorkerEvent) -> None:
    """Pause a banned phone's messages: for ever, or until the ban ends."""
    until = None
    if event is Event.TEMPORARILY_BANNED:
        ends = told.payload.expires_at_ms if isinstance(told.payload, Disconnected) else None
        until = ends or await context.scripts.now_ms() + _UNKNOWN_BAN_MS
    await holds.hold_after_ban(context, session, until_ms=until)
    await sessions.note(context.scripts, session.id, SessionChanges(ban_ends_at=until or 0))
