"""Watchdog: replaces workers that have exited, are silent, or ping but claim nothing.

Silence is judged in two steps: the first miss marks the worker, the second replaces it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum, auto
from functools import partial

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.messages.retry import MOST_CRASHES
from wa_orchestrator.domain.sessions.reconciliation import node_of
from wa_orchestrator.domain.sessions.session import Event
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.orchestrator.leader_lease import LeaderLease
from wa_orchestrator.orchestrator.sessions import transitions
from wa_orchestrator.orchestrator.workers.pool import KnownWorker, WorkerPool
from wa_orchestrator.runner.contract import Exited, Lost, Running
from wa_orchestrator.store import records, sessions
from wa_orchestrator.store.records import Session, SessionChanges
from wa_orchestrator.store.sessions import control_plane, slots

#: So many messages in a row that a connected worker did not claim: one may be bad luck.
UNCLAIMED_SUSPICIOUS, UNCLAIMED_SICK = 2, 3
#: Workers whose end is dealt with at the same time.
AT_ONCE = 16

log = structlog.get_logger(__name__)


class Liveness(Enum):
    """What a worker's last sign of life means."""

    HEALTHY = auto()
    MISSED = auto()
    """Silent, or without a claim, for suspiciously long: mark it, log whether it runs, and assess it again later."""
    SILENT = auto()
    """Marked before and silent (or without a claim) ever since: replace it."""


def assess(
    now_ms: int, last_sign_ms: int, missed_at_ms: int, unclaimed: int = 0, *, timeout_ms: float, round_ms: float
) -> Liveness:
    """Assess a worker. It is marked one round before the timeout, so that it can be replaced right at it."""
    if unclaimed >= UNCLAIMED_SICK:
        return Liveness.SILENT
    silent_ms = now_ms - last_sign_ms
    if silent_ms < max(timeout_ms - round_ms, timeout_ms / 2):
        return Liveness.MISSED if unclaimed >= UNCLAIMED_SUSPICIOUS else Liveness.HEALTHY
    return Liveness.SILENT if missed_at_ms > last_sign_ms and silent_ms >= timeout_ms else Liveness.MISSED


class Watchdog:
    """Assesses every worker that should run. After an absence of the server all get a new grace period."""

    def __init__(self, context: Context, lease: LeaderLease, pool: WorkerPool) -> None:
        self._context = context
        self._lease = lease
        self._pool = pool
        self._round_ms = context.settings.scaled(context.settings.watchdog_interval_ms)

    async def step(self) -> float:
        for session in await records.sessions(self._context.scripts, list(self._pool.workers)):
            if transitions.wants_worker(session):
                await self._check(session)
        return self._round_ms / 1000

    async def _check(self, session: Session) -> None:
        now = await self._context.scripts.now_ms()
        if self._lease.clock.was_set_back(now):
            return  # Everything heard lies in the future. The leader's next pulse begins a grace period.
        match self._liveness(session, now):
            case Liveness.MISSED:
                await self._mark(session, now)
            case Liveness.SILENT:
                await self._replace(session)

    def _last_sign_ms(self, session: Session, now: int) -> int:
        """Return when the worker was last heard. Not what was heard in the future: Redis' clock was set back since."""
        signs = (session.last_ping_at, session.started_at, self._lease.grace_from_ms)
        return max((each for each in signs if each <= now), default=0)

    def _liveness(self, session: Session, now: int) -> Liveness:
        timeout_ms = self._context.settings.scaled(self._context.settings.ping_timeout_ms)
        # While the server was away nobody could claim.
        unclaimed = session.unclaimed if now - self._lease.grace_from_ms >= timeout_ms else 0
        last_sign_ms = self._last_sign_ms(session, now)
        return assess(now, last_sign_ms, session.missed_at, unclaimed, timeout_ms=timeout_ms, round_ms=self._round_ms)

    async def _mark(self, session: Session, now: int) -> None:
        await sessions.update(self._context.scripts, session.id, SessionChanges(missed_at=now))
        known = self._pool.workers.get(session.id)
        runs = known is not None and isinstance(await self._pool.runner.poll(known.handle), Running)
        silent_ms = now - self._last_sign_ms(session, now)
        log.warning("worker.missed", session=session.id, silent_ms=silent_ms, unclaimed=session.unclaimed, runs=runs)

    async def _replace(self, judged: Session) -> None:
        async with self._pool.lock(judged.id):
            # While we waited for the lock it may have been replaced or heard: only a silent worker is meant.
            session = await records.session(self._context.scripts, judged.id)
            now = await self._context.scripts.now_ms()
            if session is None or session.epoch != judged.epoch or not transitions.wants_worker(session):
                return
            if self._liveness(session, now) is not Liveness.SILENT:
                return
            silent_ms = now - self._last_sign_ms(session, now)
            log.error("worker.silent", session=session.id, silent_ms=silent_ms, unclaimed=session.unclaimed)
            if await self._pool.fence(session) is not None:
                await self._pool.stop(session.id, 0)
                await self._pool.restart_or_give_up(session.id, Event.GONE_SILENT)


class ExitWatcher:
    """Polls each worker; one that exited, or whose node is lost, is replaced at once."""

    def __init__(self, context: Context, lease: LeaderLease, pool: WorkerPool) -> None:
        self._context = context
        self._lease = lease
        self._pool = pool

    async def step(self) -> float:
        ended: list[Callable[[], Awaitable[None]]] = []
        for session_id, known in list(self._pool.workers.items()):
            try:
                state = await self._pool.runner.poll(known.handle)
            except Unavailable:
                await self._pool.engine_away()
                await _together(ended)
                return 1.0  # no proof of an exit
            match state:
                case Running():
                    self._pool.absence.survived(known.handle)
                case Exited(code):
                    ended.append(partial(self._exited, session_id, known, code))
                case Lost():
                    ended.append(partial(self._lost, session_id, known))
        await _together(ended)
        return 0.5

    async def _exited(self, session_id: str, known: KnownWorker, code: int | None) -> None:
        async with self._pool.lock(session_id):
            if self._pool.workers.get(session_id) != known or not self._lease.is_leader:
                return  # already handled, or it ends with this server
            del self._pool.workers[session_id]
            await self._pool.runner.stop(known.handle, 0)  # its child processes
            await slots.release(self._context.scripts, session_id)
            by_engine = self._pool.absence.ended(known.handle)
            log.warning("worker.exited", session=session_id, epoch=known.epoch, code=code, by_engine=by_engine)
            session = await records.session(self._context.scripts, session_id)
            if session is None or session.epoch != known.epoch or not transitions.wants_worker(session):
                return
            if transitions.exchange_pending(session) or transitions.restart_pending(session):
                await control_plane.request_attention(self._context.scripts, session_id)
            elif by_engine:
                if await self._pool.fence(session) is not None:
                    await self._pool.restart_uncounted(session_id, Event.WORKER_DIED)
            elif await self._pool.fence(session, most_crashes=MOST_CRASHES) is not None:
                await self._pool.restart_or_give_up(session_id, Event.WORKER_DIED)

    async def _lost(self, session_id: str, known: KnownWorker) -> None:
        """Replace a worker that may still run. Fenced first: it can do nothing more, should its node come back.

        That its node was lost is no failure of the session, however often it happens.
        """
        async with self._pool.lock(session_id):
            if self._pool.workers.get(session_id) != known or not self._lease.is_leader:
                return
            log.warning("worker.lost", session=session_id, epoch=known.epoch, node=node_of(known.handle))
            session = await records.session(self._context.scripts, session_id)
            is_wanted = session is not None and session.epoch == known.epoch and transitions.wants_worker(session)
            if session is not None and is_wanted:
                if await self._pool.fence(session) is None:
                    return
                await self._pool.lost.note(session)
            await self._pool.stop(session_id, 0)
            if is_wanted:
                await self._pool.restart_uncounted(session_id, Event.GONE_SILENT)


async def _together(ended: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Do all, some at a time: a lost node takes hundreds of workers along, and each is a dozen calls of the engine.
    An error of one spares no other.
    """
    places = asyncio.Semaphore(AT_ONCE)

    async def one(each: Callable[[], Awaitable[None]]) -> None:
        async with places:
            await each()

    outcomes = await asyncio.gather(*map(one, ended), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
