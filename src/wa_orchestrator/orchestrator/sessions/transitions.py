"""Session state changes: every change of a session's status is decided and written here."""

from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions import standing as standings
from wa_orchestrator.domain.sessions.session import (
    BEFORE_THE_LINK,
    WANTS_WORKER,
    Event,
    IllegalTransition,
    Reason,
    State,
    StateChange,
)
from wa_orchestrator.domain.sessions.standing import Report, Standing
from wa_orchestrator.domain.workers.worker_events import Payload, WorkerEvent
from wa_orchestrator.orchestrator.workers import tokens
from wa_orchestrator.store import records, sessions
from wa_orchestrator.store.engine.compare_and_set import Changed, compare_and_set
from wa_orchestrator.store.outcomes import Fenced, Unknown, Written
from wa_orchestrator.store.records import Session, SessionChanges
from wa_orchestrator.store.sessions import control_plane

RUNNING, STOPPED = "running", "stopped"
#: A logout that is reported within this time after an operator asked for it is the operator's.
LOGOUT_TAKES_MS = 60_000


def standing_of(session: Session) -> Standing:
    """Return a session's standing. A record of an older version has none; it stands where its status says."""
    if text := session.standing:
        return standings.decode(text)
    return standings.settled(StateChange(session.status, session.reason), session.epoch, session.changed_at)


def wants_worker(session: Session) -> bool:
    """Whether a worker should run for this session, provided it has a proxy or may connect directly."""
    return session.wanted == RUNNING and session.status in WANTS_WORKER


def restart_pending(session: Session) -> bool:
    """Whether the worker of the session's current epoch is to be replaced."""
    return session.restart_epoch == session.epoch


def move_pending(session: Session) -> bool:
    """Whether the worker of the session's current epoch is to leave its node."""
    return session.move_epoch == session.epoch


def exchange_pending(session: Session) -> bool:
    """Whether the session's credentials are to be moved to the trash or restored from it."""
    return session.discard or bool(session.restore)


@compare_and_set("Session {session_id}")
async def apply(
    context: Context, session_id: str, event: Event, fields: SessionChanges | None = None
) -> Session | Changed | None:
    """Apply an event of the server itself; return the session after it, or None if it does not exist.

    An event that is illegal in the session's current state came too late and changes nothing.
    """
    session = await records.session(context.scripts, session_id)
    if session is None:
        return None
    try:
        after = standings.decide(standing_of(session), event, await context.scripts.now_ms(), epoch=session.epoch)
    except IllegalTransition:
        return session
    if after == standing_of(session) and not fields:
        return session
    return await _write(context, session.id, step_to(session, after, event, fields))


@compare_and_set("Session {reporter.id}")
async def apply_report(
    context: Context, reporter: Session, event: Event, report: WorkerEvent[Payload]
) -> Session | Changed | None:
    """Apply an event that the session's worker reported. The result does not depend on the order of the reports.

    Raises FENCED if the worker has been replaced.
    """
    session = await records.session(context.scripts, reporter.id)
    if session is None:
        return None
    after = after_report(session, event, report, reporter.epoch)
    if after == standing_of(session):
        return session
    return await _write(context, session.id, step_to(session, after, event, epoch=reporter.epoch))


def after_report(session: Session, event: Event, report: WorkerEvent[Payload], epoch: int) -> Standing:
    """Return the session's standing after a report of the worker of `epoch`."""
    return standings.apply(standing_of(session), Report(event, epoch, report.at_ms, report.sequence or 0))


async def _write(context: Context, session_id: str, step: sessions.Transition) -> Session | Changed | None:
    match await sessions.advance(context.scripts, session_id, step):
        case Fenced(current):
            raise tokens.fenced(current)
        case Changed() as changed:
            return changed
        case Written() | Unknown():
            return await records.session(context.scripts, session_id)


def step_to(
    session: Session, after: Standing, event: Event, fields: SessionChanges | None = None, epoch: int | None = None
) -> sessions.Transition:
    """Return the change of a session's record to `after`. Until it is linked again, an unlinked one is LOGGED_OUT."""
    unlinked_at = _unlinked_at(session, after)
    reason = Reason.LOGGED_OUT if unlinked_at and after.reason in BEFORE_THE_LINK else after.reason
    written = SessionChanges(standing=standings.encode(after), unlinked_at=unlinked_at)
    if session.status is State.CONNECTED and after.state is not State.CONNECTED:
        written["lost_at"] = after.at_ms
    written |= fields or {}
    return sessions.Transition(session.version, after.state, reason or "", event, epoch, written)


def _unlinked_at(session: Session, after: Standing) -> int:
    """Return when the phone removed the device: 0 if it is linked, never was, or an operator asked for the logout."""
    if not after.unlinked_at_ms or session.unlinked_at:
        return session.unlinked_at if after.unlinked_at_ms else 0
    asked = after.unlinked_at_ms - session.logout_asked_at < LOGOUT_TAKES_MS
    return after.unlinked_at_ms if session.first_connected_at and not asked else 0


async def request_restart(
    context: Context, session: Session, event: Event, fields: SessionChanges | None = None
) -> Session | None:
    """Have the current worker replaced, for the reason that `event` gives."""
    asked = SessionChanges(restart_epoch=session.epoch) | (fields or {})
    after = await apply(context, session.id, event, asked)
    await control_plane.request_attention(context.scripts, session.id)
    return after
