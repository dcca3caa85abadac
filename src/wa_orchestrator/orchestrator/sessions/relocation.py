"""Relocation: a session leaves its node, its worker ends by itself, and another one starts elsewhere.

Everything that is left to do is in the session's record, so a server that dies in between changes nothing: the next
leader's reconciler goes on where it was.
"""

from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions.session import Event
from wa_orchestrator.domain.stream_events import EventType, SessionRelocated
from wa_orchestrator.orchestrator.sessions import transitions
from wa_orchestrator.store import sessions
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.records import Session, SessionChanges


async def request(context: Context, session: Session, to: str = "") -> Session | None:
    """Have a session leave its node for another, or for one that the engine chooses."""
    asked = SessionChanges(
        move_epoch=session.epoch,
        move_to=to,
        moved_from=session.node,
        moved_at=await context.scripts.now_ms(),
        left_at=0,
        away_ms=0,
    )
    return await transitions.request_restart(context, session, Event.RESTART_ASKED, asked)


async def note_departure(context: Context, session: Session) -> None:
    """Record that a session is away from now on. Until then its worker had a message in hand, and was connected."""
    await sessions.update(context.scripts, session.id, SessionChanges(left_at=await context.scripts.now_ms()))


async def note_return(context: Context, session: Session) -> None:
    """Record how long a session was away that is connected again, and tell it. May be repeated."""
    if session.move_epoch is None or session.epoch <= session.move_epoch:
        return
    away_ms = max(1, await context.scripts.now_ms() - (session.left_at or session.moved_at))
    moved = SessionRelocated(session.id, session.moved_from, session.move_to or session.node, away_ms, session.phone)
    await event_stream.emit(context.scripts, EventType.SESSION_RELOCATED, moved, history=session.id)
    await sessions.update(context.scripts, session.id, SessionChanges(move_epoch=None, away_ms=away_ms))
