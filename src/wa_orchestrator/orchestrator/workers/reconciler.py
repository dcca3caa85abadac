"""Reconciler: starts and stops workers until those that run are those that should."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions import reconciliation
from wa_orchestrator.domain.sessions.reconciliation import Adopt, FoundWorker, Replace, Start, Stop
from wa_orchestrator.domain.sessions.session import WANTS_WORKER, Event, State
from wa_orchestrator.orchestrator.leader_lease import LeaderLease
from wa_orchestrator.orchestrator.sessions import transitions
from wa_orchestrator.orchestrator.workers.adoption import adopt
from wa_orchestrator.orchestrator.workers.pool import SHORT_GRACE_S, WorkerPool
from wa_orchestrator.store import records
from wa_orchestrator.store.leases import Holding
from wa_orchestrator.store.records import Session
from wa_orchestrator.store.sessions import control_plane, slots

#: Instructions of one kind that are carried out at the same time.
AT_ONCE = 32

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
        sessions = await records.sessions(self._context.scripts)
        for session in sessions:
            await self._resume(session)
        found = {worker.handle: worker for worker in await self._pool.survey()}
        await self._release_slots(sessions, {worker.session_id for worker in found.values()})
        wanted: dict[str, int] = {session.id: session.epoch for session in sessions if _should_run(session)}
        adopted = frozenset(known.handle for known in self._pool.workers.values())
        now = await self._context.scripts.now_ms()
        plan = reconciliation.plan(wanted, found.values(), now, adopted=adopted)
        for _, alike in groupby(plan, type):  # stops before starts
            await self._carry_out_all(list(alike), found)
        self._finished_under = led_by
        return self._context.settings.monitor_interval_ms / 1000

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

    async def _carry_out_all(
        self, instructions: Sequence[reconciliation.Instruction], found: Mapping[str, FoundWorker]
    ) -> None:
        """Carry out instructions of one kind, many at a time: after a power cut hundreds of sessions are to be told
        that they are not connected, and that must not take longer than their restart. An error of one spares no other.
        """
        places = asyncio.Semaphore(AT_ONCE)

        async def carry_out(instruction: reconciliation.Instruction) -> None:
            async with places, self._pool.lock(instruction.session_id):
                await self._carry_out(instruction, found)

        outcomes = await asyncio.gather(*map(carry_out, instructions), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _carry_out(self, instruction: reconciliation.Instruction, found: Mapping[str, FoundWorker]) -> None:
        match instruction:
            case Stop(handle, session_id):
                log.warning("worker.stray", session=session_id, epoch=found[handle].epoch)
                await self._pool.runner.stop(handle, SHORT_GRACE_S)
            case Replace(_, handle, _):
                await self._replace(found[handle])
            case Adopt(_, handle):
                await adopt(self._context, self._pool, found[handle])
            case Start(session_id, _):
                await self._start(session_id)

    async def _start(self, session_id: str) -> None:
        """Queue a session without a worker. A recorded connection is no evidence that there is one now."""
        if session_id in self._pool.workers:
            return
        session = await records.session(self._context.scripts, session_id)
        if session is not None and session.status == State.CONNECTED:
            first_round = self._finished_under != self._lease.holding
            event = Event.SERVER_STOPPED if first_round else Event.WORKER_DIED
            await transitions.apply(self._context, session_id, event)
        await self._pool.enqueue(session_id, front=False)

    async def _replace(self, worker: FoundWorker) -> None:
        """Stop a lost worker, or one of another epoch, unless the session has reached that since the plan was made."""
        if not worker.is_lost and await adopt(self._context, self._pool, worker):
            return
        if worker.is_lost and (session := await records.session(self._context.scripts, worker.session_id)):
            if await self._pool.fence(session) is None:
                return
            await self._pool.lost.note(session)
        await self._pool.runner.stop(worker.handle, SHORT_GRACE_S)
        known = self._pool.workers.get(worker.session_id)
        if known is not None and known.handle == worker.handle:
            del self._pool.workers[worker.session_id]
        if worker.is_lost:
            await self._pool.restart_uncounted(worker.session_id, Event.GONE_SILENT)
        else:
            await self._pool.enqueue(worker.session_id)


def _should_run(session: Session) -> bool:
    has_exit = bool(session.proxy or session.direct)
    return transitions.wants_worker(session) and has_exit and not session.removing
