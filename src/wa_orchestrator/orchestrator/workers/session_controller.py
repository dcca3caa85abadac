"""Session controller: stops, replaces, queues or removes a worker as the session's record requires."""

import asyncio

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.ids import Phone
from wa_orchestrator.domain.sessions.session import WANTS_WORKER, Event, Reason
from wa_orchestrator.domain.stream_events import ProxyReason
from wa_orchestrator.orchestrator.proxies import placement
from wa_orchestrator.orchestrator.sessions import credential_files, credential_trash, queue_handover, transitions
from wa_orchestrator.orchestrator.workers.pool import SHORT_GRACE_S, STOP_GRACE_S, WorkerPool
from wa_orchestrator.store import records, sessions
from wa_orchestrator.store.conversations import conversation_homes
from wa_orchestrator.store.engine.compare_and_set import Changed, compare_and_set
from wa_orchestrator.store.records import Session, SessionChanges
from wa_orchestrator.store.sessions import control_plane, stored_credentials

log = structlog.get_logger(__name__)
_WAIT_S = 1.0
#: For these a worker gets the full grace period; for all others it can finish nothing.
_GRACEFUL = {Reason.RESTARTING, Reason.STOPPED_BY_OPERATOR, Reason.BACKUP, Reason.RESTORE, Reason.LOGGED_OUT}


class SessionController:
    """Pops `control:attend` and handles each session: many concurrently, one session's requests one after another."""

    def __init__(self, context: Context, pool: WorkerPool) -> None:
        self._context = context
        self._pool = pool
        self._busy: set[asyncio.Task[None]] = set()

    async def step(self) -> float:
        session_id = await control_plane.next_attention(self._context.scripts, _WAIT_S)
        if session_id is not None:
            task = asyncio.create_task(self._attend(session_id))
            self._busy.add(task)
            task.add_done_callback(self._busy.discard)
        return 0

    async def _attend(self, session_id: str) -> None:
        try:
            await self.attend(session_id)
        except Exception as error:  # the reconciler requests it again
            log.error("session.attend_failed", session=session_id, exc_info=error)

    async def attend(self, session_id: str) -> None:
        """Do what the session's record requires now."""
        async with self._pool.lock(session_id):
            session = await records.session(self._context.scripts, session_id)
            if session is None:
                return
            if session.removing:
                await self._remove(session)
            elif transitions.exchange_pending(session):
                await self._exchange(session)
            elif not transitions.wants_worker(session):
                await self._stop(session)
            elif not session.proxy and not session.direct:
                await self._wait_for_slot(session)
            elif transitions.restart_pending(session) and transitions.move_pending(session):
                await self._pool.move(session)
            elif transitions.restart_pending(session):
                await self._pool.replace(session, _grace(session))
            elif session_id not in self._pool.workers:
                await self._pool.enqueue(session_id, front=False)

    async def _stop(self, session: Session) -> None:
        if session.wanted == transitions.STOPPED and session.status in WANTS_WORKER:
            await transitions.apply(self._context, session.id, Event.STOP_ASKED)
        await control_plane.cancel_start(self._context.scripts, session.id)
        if session.id in self._pool.workers and await self._pool.fence(session) is not None:
            await self._pool.stop(session.id, _grace(session))

    async def _wait_for_slot(self, session: Session) -> None:
        if session.id in self._pool.workers and await self._pool.fence(session) is not None:
            await self._pool.stop(session.id, SHORT_GRACE_S)
        await placement.assign_slot(self._context, session, ProxyReason.NO_PROXY)

    async def _exchange(self, session: Session) -> None:
        """Move the session's credentials to the trash, restore others from there if requested, and start again."""
        if not await self._clear(session, SHORT_GRACE_S):
            return
        restore = session.restore
        settings = self._context.settings
        # Credentials that left the trash were restored before a crash, and must not be moved there again.
        trashed = {each.id: each for each in credential_files.list_trash(settings)}
        pending = not restore or restore in trashed
        if pending:
            why = "replaced" if restore else "logged out"
            await self._discard(session, why)
            await stored_credentials.forget(self._context.scripts, session.id)
        done = SessionChanges(discard=False, restore="", restart_epoch=None)
        if restore and pending:
            named = SessionChanges(named_phone=Phone(trashed[restore].phone))  # its worker reports it without a code
            await sessions.update(self._context.scripts, session.id, named)
            # First: after a crash, credentials that have left the trash are not searched there again.
            if copy := await credential_files.trashed_copy(settings, restore):
                stored = stored_credentials.unpack(copy)
                await stored_credentials.put_back(self._context.scripts, session.id, stored)
            await credential_files.restore(settings, restore, session.id)
        elif not restore:
            # The warm-up starts again, and only a code of the next worker may link another phone.
            done |= SessionChanges(first_connected_at=0, banned=False, code_at=0, named_phone=Phone(""))
        await sessions.update(self._context.scripts, session.id, done)
        await self._pool.enqueue(session.id)

    async def _clear(self, session: Session, grace_s: float) -> bool:
        """Fence and stop all workers of a session before its credentials are touched; False if we do not lead.

        Also unknown workers: a new leader may not have adopted them yet.
        """
        if await self._pool.fence(session) is None:
            return False
        await self._pool.stop(session.id, grace_s)
        await self._pool.stop_all(session.id)
        return True

    async def _discard(self, session: Session, why: str) -> None:
        await credential_trash.discard(self._context, session.id, phone=session.phone, label=session.label, why=why)

    async def _remove(self, session: Session) -> None:
        """Stop the worker, move the credentials to the trash, free the slot. Each step may be repeated."""
        if not await self._clear(session, STOP_GRACE_S):
            return
        await self._discard(session, "deleted")
        if await self._remove_record(session):
            scripts = self._context.scripts
            # After a crash here they are taken over one by one, as contacts write.
            conversations = await conversation_homes.hand_over(scripts, session.id, session.phone)
            log.info("session.removed", session=session.id, conversations=conversations)

    @compare_and_set("Session {session.id}")
    async def _remove_record(self, session: Session) -> bool | Changed:
        await queue_handover.hand_over(self._context, session, session.removing_queued or "cancel")
        current = await records.session(self._context.scripts, session.id)
        if current is None:
            return False
        forget = "forget" if session.removing == "forget" else ""
        outcome = await sessions.remove(
            self._context.scripts, session.id, proxy=current.proxy, phone=current.phone, forget=forget
        )
        # A message that was released meanwhile must be handed over, too.
        return Changed() if isinstance(outcome, Changed | sessions.InFlight) else True


def _grace(session: Session) -> float:
    return STOP_GRACE_S if session.reason in _GRACEFUL else SHORT_GRACE_S
