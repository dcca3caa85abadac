"""Adoption: the workers that outlived a restart of the server are taken over as they run."""

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions.reconciliation import FoundWorker
from wa_orchestrator.domain.sessions.session import Event, Reason
from wa_orchestrator.orchestrator.sessions import transitions
from wa_orchestrator.orchestrator.workers.pool import KnownWorker, WorkerPool
from wa_orchestrator.store import records, sessions
from wa_orchestrator.store.records import SessionChanges

log = structlog.get_logger(__name__)


async def adopt(context: Context, pool: WorkerPool, worker: FoundWorker) -> bool:
    """Take over a worker; False if its session has another epoch. The caller holds the session's lock."""
    session = await records.session(context.scripts, worker.session_id)
    if session is None or session.epoch != worker.epoch:
        return False
    # If its session has left a proxy since it was started, it still uses that one.
    pool.workers[session.id] = KnownWorker(worker.handle, worker.epoch, session.leaving or session.proxy)
    log.info("worker.adopted", session=session.id, epoch=worker.epoch)
    if worker.node != session.node:  # the server that started it died before it wrote that down
        await sessions.update(context.scripts, session.id, SessionChanges(node=worker.node, move_to=""))
    if session.reason == Reason.SERVER_STOPPED:
        # It survived an interrupted stop, and reports its connection only when it connects the next time.
        await transitions.request_restart(context, session, Event.RESTART_ASKED)
    return True
