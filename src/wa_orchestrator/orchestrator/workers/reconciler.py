"""Reconciler: compares the workers that should run with those that do; the exit watcher notices exits at once."""

from collections.abc import Collection, Iterable

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain import reconcile
from wa_orchestrator.domain.reconcile import Adopt, Replace, SeenWorker, Start, Stop, WantedWorker
from wa_orchestrator.domain.session import WANTS_WORKER, Event, Reason, State
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.orchestrator.leader_lease import LeaderLease
from wa_orchestrator.orchestrator.sessions import transitions
from wa_orchestrator.orchestrator.workers.pool import SHORT_GRACE_S, KnownWorker, WorkerPool
from wa_orchestrator.runner.contract import Exited
from wa_orchestrator.store import records
from wa_orchestrator.store.leases import Holding
from wa_orchestrator.store.records import Session
from wa_orchestrator.store.sessions import control_plane, slots

log = structlog.get_logger(__name__)


class Reconciler:
    """Adopts running workers, starts missing ones and stops strays: when leadership begins and at every interval."""

    def __init__(self, context: Context, lease: LeaderLease, pool: WorkerPool) -> None:
        self._context = context
        self._lease = lease
        self._pool = pool
        self._finished_under: Holding | None = None
        """The lease of the last finished round. Before the first one, nobody knows how a missing worker ended."""

    async def step(self) -> float:
        """Do one round. Running workers are adopted as they are: a restart of the server restarts none."""
        led_by = self._lease.holding
        # Sessions before the survey: a worker that starts in between is younger than the grace period of strays.
        sessions = {session.id: session for session in await records.sessions(self._context.scripts)}
        for session in sessions.values():
            await self._resume(session)
        seen = await self._survey()
        await self._release_slots(sessions.values(), {worker.session_id for worker in seen})
        wanted = [WantedWorker(each.id, each.epoch) for each in sessions.values() if _should_run(each)]
        adopted = frozenset(known.handle for known in self._pool.workers.values())
        now = await self._context.scripts.now_ms()
        for instruction in reconcile.plan(wanted, seen, now, adopted=adopted):
            await self._carry_out(instruction, {one.handle: one for one in seen})
        self._finished_under = led_by
        return self._context.settings.monitor_interval_ms / 1000

    async def _survey(self) -> list[SeenWorker]:
        found = await self._pool.runner.survey()
        return [SeenWorker(each.session_id, each.epoch, each.handle, each.started_at_ms) for each in found]

    async def _release_slots(self, sessions: Iterable[Session], running: Collection[str]) -> None:
        """Free the slots that were kept for workers which have ended, unless a new one has started since the survey."""
        for session in sessions:
            if not session.leaving or session.id in running:
                continue
            async with self._pool.lock(session.id):
                current = await records.session(self._context.scripts, session.id)
                if current is not None and (current.leaving, current.epoch) == (session.leaving, session.epoch):
                    await slots.release(self._context.scripts, session.id)

    async def _resume(self, session: Session) -> None:
        """Request attention for what a crash left half done."""
        unfinished = session.removing or transitions.exchange_pending(session) or transitions.restart_pending(session)
        not_stopped = session.wanted == transitions.STOPPED and session.status in WANTS_WORKER
        if unfinished or not_stopped or (transitions.wants_worker(session) and not _should_run(session)):
            await control_plane.request_attention(self._context.scripts, session.id)

    async def _carry_out(self, instruction: reconcile.Instruction, seen: dict[str, SeenWorker]) -> None:
        async with self._pool.lock(instruction.session_id):
            match instruction:
                case Stop(handle, session_id):
                    log.warning("worker.stray", session=session_id, epoch=seen[handle].epoch)
                    await self._pool.runner.stop(handle, SHORT_GRACE_S)
                case Replace(session_id, handle, _):
                    await self._replace(session_id, seen[handle])
                case Adopt(session_id, handle):
                    await self._adopt(session_id, seen[handle])
                case Start(session_id, _):
                    await self._start(session_id)

    async def _adopt(self, session_id: str, worker: SeenWorker) -> None:
        session = await records.session(self._context.scripts, session_id)
        if session is None or session.epoch != worker.epoch:
            return  # replaced after the survey; the next round finds its successor
        self._pool.workers[session_id] = _known(worker, session)
        log.info("worker.adopted", session=session_id, epoch=worker.epoch)
        if session.reason == Reason.SERVER_STOPPED:
            # It survived an interrupted stop, and reports its connection only when it connects the next time.
            await transitions.request_restart(self._context, session, Event.RESTART_ASKED)

    async def _start(self, session_id: str) -> None:
        """Queue a session without a worker. A recorded connection is no evidence that there is one now."""
        if session_id in self._pool.workers:
            return
        session = await records.session(self._context.scripts, session_id)
        if session is not None and session.status == State.CONNECTED:
            first_round = self._finished_under != self._lease.holding
            await transitions.apply(
                self._context, session_id, Event.SERVER_STOPPED if first_round else Event.WORKER_DIED
            )
        await self._pool.enqueue(session_id, front=False)

    async def _replace(self, session_id: str, worker: SeenWorker) -> None:
        """Stop a worker of another epoch, unless the session has reached that epoch since the plan was made."""
        session = await records.session(self._context.scripts, session_id)
        if session is not None and session.epoch == worker.epoch:
            self._pool.workers[session_id] = _known(worker, session)
            return
        await self._pool.runner.stop(worker.handle, SHORT_GRACE_S)
        if (known := self._pool.workers.get(session_id)) is not None and known.handle == worker.handle:
            del self._pool.workers[session_id]
        await self._pool.enqueue(session_id)


def _known(worker: SeenWorker, session: Session) -> KnownWorker:
    """Return a worker that was found. If its session has left a proxy since it was started, it still uses that one."""
    return KnownWorker(worker.handle, worker.epoch, session.leaving or session.proxy)


def _should_run(session: Session) -> bool:
    has_exit = bool(session.proxy or session.direct)
    return transitions.wants_worker(session) and has_exit and not session.removing


class ExitWatcher:
    """Polls each worker; one that exited is replaced at once."""

    def __init__(self, context: Context, lease: LeaderLease, pool: WorkerPool) -> None:
        self._context = context
        self._lease = lease
        self._pool = pool

    async def step(self) -> float:
        """Poll every known worker."""
        for session_id, known in list(self._pool.workers.items()):
            try:
                state = await self._pool.runner.poll(known.handle)
            except Unavailable:
                return 1.0  # no proof of an exit
            if isinstance(state, Exited):
                await self._exited(session_id, known, state.code)
        return 0.5

    async def _exited(self, session_id: str, known: KnownWorker, code: int | None) -> None:
        async with self._pool.lock(session_id):
            if self._pool.workers.get(session_id) != known or not self._lease.is_leader:
                return  # already handled, or it ends with this server
            del self._pool.workers[session_id]
            await self._pool.runner.stop(known.handle, 0)  # its child processes
            await slots.release(self._context.scripts, session_id)
            log.warning("worker.exited", session=session_id, epoch=known.epoch, code=code)
            session = await records.session(self._context.scripts, session_id)
            if session is None or session.epoch != known.epoch or not transitions.wants_worker(session):
                return
            if transitions.exchange_pending(session) or transitions.restart_pending(session):
                await control_plane.request_attention(self._context.scripts, session_id)
                return
            await self._pool.restart_or_give_up(session_id, Event.WORKER_DIED)
