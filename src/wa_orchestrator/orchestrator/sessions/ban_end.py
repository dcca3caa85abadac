"""Starts a session again when its temporary ban has ended."""

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions.session import Event, Reason, State
from wa_orchestrator.orchestrator.sessions import transitions
from wa_orchestrator.store import records
from wa_orchestrator.store.records import Session
from wa_orchestrator.store.sessions import control_plane

#: A ban that is renewed at each login, with an end in the past, must not become a login every few seconds.
LEAST_REST_MS = 5 * 60_000

log = structlog.get_logger(__name__)


def is_over(session: Session, now_ms: int, least_rest_ms: float) -> bool:
    """Whether a session rests for a temporary ban that has ended, and an operator wants it to run."""
    return (
        (session.status, session.reason) == (State.FAILED, Reason.TEMPORARY_BAN)
        and session.wanted == transitions.RUNNING
        and 0 < session.ban_ends_at <= now_ms
        and session.changed_at + least_rest_ms <= now_ms
    )


async def start_when_over(context: Context) -> float:
    """Start every session whose temporary ban is over. The end is in the record, so a restart misses none."""
    now_ms = await context.scripts.now_ms()
    for session in await records.sessions(context.scripts):
        if is_over(session, now_ms, context.settings.scaled(LEAST_REST_MS)):
            log.info("session.ban_ended", session=session.id)
            await transitions.apply(context, session.id, Event.BAN_ENDED)
            await control_plane.request_attention(context.scripts, session.id)
    return context.settings.monitor_interval_ms / 1000
