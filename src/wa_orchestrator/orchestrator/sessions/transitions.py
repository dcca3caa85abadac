"""Every change of a session's state goes through here: read, decide, compare and set, and look again if it changed."""

from collections.abc import Mapping
from dataclasses import dataclass

from wa_orchestrator.domain import session_standing as standings
from wa_orchestrator.domain.worker_events import WorkerEvent
from wa_orchestrator.domain.session import WANTS_WORKER, Event, IllegalTransition, StateChange, Reason, State
from wa_orchestrator.domain.session_standing import Report, Standing
from wa_orchestrator.errors import Broken
from wa_orchestrator.store import keys, records, sessions
from wa_orchestrator.store.records import Session, SessionChanges
from wa_orchestrator.context import Context

RUNNING, STOPPED = "running", "stopped"
#: Somebody else may have written meanwhile; more often in a row than this, nobody could.
_TRIES = 50


@dataclass(frozen=True, slots=True)
class Fenced:
    """The report came from another epoch than the session's."""

    epoch: int


def standing_of(session: Session) -> Standing:
    """Read a session's standing; one that was written without (an older version's) stands where its record says."""
    if text := session.standing:
        return standings.decode(text)
    return standings.settled(StateChange(session.status, session.reason), session.epoch, session.changed_at)


def wants_worker(session: Session) -> bool:
    """Say whether a worker should run for this session, if it has a way out."""
    return session.wanted == RUNNING and session.status in WANTS_WORKER


def restart_pending(session: Session) -> bool:
    """Say whether the worker of the session's present epoch is to be replaced."""
    return session.restart_epoch == session.epoch


def exchange_pending(session: Session) -> bool:
    """Say whether the session's credentials are to go to the trash, or others to come from there."""
    return session.discard or bool(session.restore)


async def apply(
    context: Context, session_id: str, event: Event, fields: SessionChanges | None = None
) -> Session | None:
    """Write what becomes of a session by an event of the server's own; None when there is no such session.

    An event that came too late for the state that the session has got meanwhile changes nothing.
    """
    for _ in range(_TRIES):
        session = await records.session(context.scripts, session_id)
        if session is None:
            return None
        now = await context.scripts.now_ms()
        before = standing_of(session)
        try:
            after = _decide(before, event, now, session.epoch)
        except IllegalTransition:
            return session
        if after == before and not fields:
            return session
        outcome = await sessions.advance(context.scripts, session_id, _step(session, after, event, fields))
        if isinstance(outcome, sessions.Advanced):
            return await records.session(context.scripts, session_id)
    raise Broken(f"session {session_id} changed {_TRIES} times while {event} was written")


def _decide(before: Standing, event: Event, now_ms: int, epoch: int) -> Standing:
    after = standings.decide(before, event, now_ms, epoch=epoch)
    if event is Event.WORKER_STARTED and before.reason is Reason.LOGGED_OUT:
        # That a person has to scan again is worth more than that a worker starts; the code itself replaces it.
        return standings.settled(StateChange(before.state, before.reason), after.epoch, before.at_ms)
    return after


async def apply_report(
    context: Context, session: Session, event: Event, told: WorkerEvent, fields: SessionChanges | None = None
) -> Session | Fenced | None:
    """Write what becomes of a session by what its worker told; the same for every order of the same reports."""
    seen: Session | None = session
    for _ in range(_TRIES):
        if seen is None:
            return None
        before = standing_of(seen)
        after = after_report(before, event, told, session.epoch)
        if after == before and not fields:
            return seen
        step = _step(seen, after, event, fields, epoch=session.epoch)
        match await sessions.advance(context.scripts, session.id, step):
            case sessions.Advanced():
                return await records.session(context.scripts, session.id)
            case sessions.Fenced(epoch):
                return Fenced(epoch)
        seen = await records.session(context.scripts, session.id)
    raise Broken(f"session {session.id} changed {_TRIES} times while {event} was written")


def after_report(before: Standing, event: Event, told: WorkerEvent, epoch: int) -> Standing:
    """Give the standing after a report of the worker of `epoch`."""
    return standings.apply(before, Report(event, epoch, told.at_ms, told.sequence or 0))


def _step(
    session: Session,
    after: Standing,
    event: Event,
    fields: SessionChanges | None,
    epoch: int | None = None,
) -> sessions.Step:
    written = SessionChanges(standing=standings.encode(after)) | (fields or {})
    return sessions.Step(session.version, after.state, after.reason or "", event, epoch, written)


async def request_attention(context: Context, session_id: str) -> None:
    """Ask the control plane to look at a session now."""
    await context.redis.rpush(keys.CONTROL_ATTEND, session_id)


async def request_restart(
    context: Context, session: Session, event: Event, fields: SessionChanges | None = None
) -> Session | None:
    """Have the present worker replaced, for the reason that `event` gives."""
    asked = SessionChanges(restart_epoch=session.epoch) | (fields or {})
    after = await apply(context, session.id, event, asked)
    await request_attention(context, session.id)
    return after
