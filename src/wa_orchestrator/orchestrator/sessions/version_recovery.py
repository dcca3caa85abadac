"""Brings sessions back whose client version WhatsApp refused, as `domain.version_recovery` decides."""

from dataclasses import dataclass

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions import version_recovery
from wa_orchestrator.domain.sessions.session import Event, Reason, State
from wa_orchestrator.domain.sessions.version_recovery import NextTrial, RefusedSession, Release, TryOne
from wa_orchestrator.orchestrator.sessions import transitions
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.records import Session
from wa_orchestrator.store.sessions import client_version, control_plane

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ClientVersion:
    """What is known about the versions of WhatsApp Web that WhatsApp lets in. 0 means unknown, or none."""

    newest: int
    """The newest revision that a login was accepted with; new workers announce it."""
    accepted_at: int
    refused: int
    """How many sessions rest because WhatsApp refused their version."""
    next_trial_at: int
    expires_at: int
    """From when on WhatsApp has announced to refuse the present version."""


def is_refused(session: Session) -> bool:
    """Whether a session rests because of its version, and an operator wants it to run."""
    return (session.status, session.reason) == (State.FAILED, Reason.CLIENT_OUTDATED) and (
        session.wanted == transitions.RUNNING
    )


async def step(context: Context) -> float:
    """Start what may start now. All that this depends on is in Redis, so a restart of the server changes nothing."""
    if refused := await _refused(context.scripts):
        await _start_some(context, refused)
    return context.settings.monitor_interval_ms / 1000


async def overview(settings: Settings, scripts: Scripts) -> ClientVersion:
    """Return what is known about client versions, and when the next session tries for those that were refused."""
    refused = await _refused(scripts)
    login, trial = await client_version.read(scripts)
    pause_ms = settings.scaled(version_recovery.RETRY_AFTER_MS)
    return ClientVersion(
        newest=await client_version.newest_revision(scripts),
        accepted_at=login.at_ms,
        refused=len(refused),
        next_trial_at=version_recovery.next_trial_ms(refused, trial, pause_ms) if refused else 0,
        expires_at=await client_version.expires_at(scripts),
    )


async def _refused(scripts: Scripts) -> list[RefusedSession]:
    return [
        RefusedSession(each.id, each.changed_at, each.refused_revision)
        for each in await records.sessions(scripts)
        if is_refused(each)
    ]


async def _start_some(context: Context, refused: list[RefusedSession]) -> None:
    scripts = context.scripts
    login, trial = await client_version.read(scripts)
    now_ms = await scripts.now_ms()
    pause_ms = context.settings.scaled(version_recovery.RETRY_AFTER_MS)
    match version_recovery.decide(refused, login=login, trial=trial, now_ms=now_ms, retry_after_ms=pause_ms):
        case TryOne(session):
            # First the note, then the start: a crash between them costs one turn and starts nobody twice.
            await client_version.put_trial(scripts, session, now_ms)
            log.info("client_version.tried_again", session=session, refused=len(refused))
            await _start(context, session)
        case Release(sessions):
            log.info("client_version.released", sessions=len(sessions), revision=login.revision)
            for session in sessions:
                await _start(context, session)
        case NextTrial():
            pass


async def _start(context: Context, session: str) -> None:
    await transitions.apply(context, session, Event.VERSION_RETRIED)
    await control_plane.request_attention(context.scripts, session)
