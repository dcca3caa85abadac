"""Worker pool: starts, stops and replaces workers, never two for one session."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.proxies.proxy_health import ProxyStatus
from wa_orchestrator.domain.sessions.reconciliation import FoundWorker, node_of
from wa_orchestrator.domain.sessions.session import Event
from wa_orchestrator.domain.stream_events import ProxyReason
from wa_orchestrator.domain.workers.nodes import MOVES_AT_ONCE
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.messages.session_pace import day_of
from wa_orchestrator.orchestrator.leader_lease import LeaderLease
from wa_orchestrator.orchestrator.proxies import placement
from wa_orchestrator.orchestrator.sessions import credential_files, relocation, transitions
from wa_orchestrator.orchestrator.workers import restart_limit
from wa_orchestrator.orchestrator.workers.engine_absence import EngineAbsence
from wa_orchestrator.orchestrator.workers.lost_workers import LostWorkers
from wa_orchestrator.orchestrator.workers.worker_spec import spec_for
from wa_orchestrator.runner.contract import AlreadyRunning, LostAtStart, NoNodeForWorker, Runner, StartFailed
from wa_orchestrator.store import records, sessions
from wa_orchestrator.store.engine.compare_and_set import Changed, compare_and_set
from wa_orchestrator.store.outcomes import Unknown
from wa_orchestrator.store.records import Session, SessionChanges
from wa_orchestrator.store.sessions import client_version, commands, control_plane, slots

#: Time for a worker to finish its message. One that lost its proxy can finish nothing.
STOP_GRACE_S, SHORT_GRACE_S = 10.0, 1.0
#: How often the engine is asked whether a worker that leaves has ended.
_LOOK_AGAIN_S = 0.1

Begun = Callable[[], Awaitable[None]]

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class KnownWorker:
    """A worker that this process started or adopted; `proxy` is the one it was started with."""

    handle: str
    epoch: int
    proxy: str


class WorkerPool:
    """All workers of the installation. Only the leader may call methods that change anything."""

    def __init__(self, context: Context, lease: LeaderLease, runner: Runner) -> None:
        self._context = context
        self._lease = lease
        self.runner = runner
        self.workers: dict[str, KnownWorker] = {}
        self.absence = EngineAbsence(context)
        self.lost = LostWorkers(context, lease)
        self._starting: dict[str, str] = {}
        """Sessions whose worker the runner starts now, with their proxy."""
        self._moves = asyncio.Semaphore(MOVES_AT_ONCE)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock(self, session_id: str) -> asyncio.Lock:
        """Return the lock of a session. It is shared by all who hold or await it, and dropped with the last of them."""
        return self._locks.setdefault(session_id, asyncio.Lock())

    async def fence(self, session: Session, *, most_crashes: int | None = None) -> int | None:
        """Raise the session's epoch, so that its current worker can do nothing more. None if we do not lead.

        With `most_crashes` that worker has died: the message it held fails after so many deaths.
        """
        stored_epoch = await credential_files.stored_epoch(self._context.settings, session.id)
        return await self._register(session, stored_epoch, most_crashes)

    @compare_and_set("Session {session.id}")
    async def _register(self, session: Session, stored_epoch: int, most_crashes: int | None) -> int | Changed | None:
        scripts, holding = self._context.scripts, self._lease.holding
        current = await records.session(scripts, session.id)
        if holding is None or current is None:
            return None
        match await sessions.register(
            scripts,
            session.id,
            phone=current.phone,
            lease=holding.value,
            day=day_of(self._context.settings, current, await scripts.now_ms()),
            above=stored_epoch,
            most_crashes=most_crashes,
        ):
            case Changed() as changed:
                return changed
            case sessions.Registered(epoch):
                return epoch
            case sessions.NotLeader() | Unknown():
                return None

    async def enqueue(self, session_id: str, *, front: bool = True) -> None:
        """Put a session into the queue of its kind, once; `front` before those that wait there."""
        session = await records.session(self._context.scripts, session_id)
        if session is not None:
            kind = control_plane.start_kind(session)
            await control_plane.enqueue_start(self._context.scripts, session_id, kind, front=front)

    async def stop(self, session_id: str, grace_s: float) -> None:
        """Stop the session's worker, if one is known. When it returns, that does not run and keeps no slot."""
        known = self.workers.get(session_id)
        if known is None:  # nobody knows whether one runs: it may keep a slot on the proxy that the session left
            return
        await self.runner.stop(known.handle, grace_s)
        await self._note_if_lost(session_id, known.handle, known.epoch)
        if self.workers.get(session_id) == known:
            del self.workers[session_id]
        log.info("worker.stopped", session=session_id, epoch=known.epoch)
        await slots.release(self._context.scripts, session_id)

    async def replace(self, session: Session, grace_s: float) -> None:
        """Fence, stop and queue: the new worker starts when its turn comes."""
        if session.id in self.workers and await self.fence(session) is None:
            return
        await self.stop(session.id, grace_s)
        await self.enqueue(session.id)

    async def move(self, session: Session) -> None:
        """End the worker and start another one, on another node.

        Unlike `replace` it fences last, at the start: until it has ended, the worker may store its credentials. A few
        sessions at a time do not wait in the queue of starts; where somebody moves many, the others do.
        """
        if self._lease.holding is None:
            return
        if known := self.workers.get(session.id):
            await self._let_leave(session, known)
        await self.stop(session.id, STOP_GRACE_S)
        for found in await self.runner.survey():  # a new leader may not have adopted it yet
            if found.session_id == session.id and found.epoch <= session.epoch:
                await self.runner.stop(found.handle, STOP_GRACE_S)
                await self._note_if_lost(session.id, found.handle, found.epoch)
        if self._moves.locked():
            await self.enqueue(session.id)
            return
        async with self._moves:
            await self._start(session.id)

    async def _let_leave(self, session: Session, known: KnownWorker) -> None:
        """Have a worker end by itself, and wait until it has: an engine takes seconds longer to end it.

        One that does not answer, or cannot obey, is left to `stop`.
        """
        answer = await commands.run(
            self._context.scripts, session.id, "leave", timeout_s=STOP_GRACE_S, epoch=str(known.epoch)
        )
        await relocation.note_departure(self._context, session)
        deadline = time.monotonic() + STOP_GRACE_S
        while answer is not None and answer.get("ok") and time.monotonic() < deadline:
            if all(found.handle != known.handle for found in await self.runner.survey()):
                return
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def start(self, session_id: str, *, begun: Begun | None = None) -> bool:
        """Start the session's worker if it should run and does not. Return whether a start was attempted.

        `begun` is awaited when nothing is left but the runner's part, which takes seconds with some engines.
        """
        async with self.lock(session_id):
            return await self._start(session_id, begun)

    async def _start(self, session_id: str, begun: Begun | None = None) -> bool:
        session = await records.session(self._context.scripts, session_id)
        if session is None or not transitions.wants_worker(session):
            return False
        known = self.workers.get(session_id)
        if known is not None and known.epoch == session.epoch and not transitions.restart_pending(session):
            return False  # it runs
        if transitions.exchange_pending(session):
            # A worker must not read credentials that are about to be exchanged.
            await control_plane.request_attention(self._context.scripts, session_id)
            return False
        if await self._waits_for_lost(session):
            return False
        proxy_url = await self._proxy_url(session)
        if proxy_url is None or (epoch := await self.fence(session)) is None:
            return False
        if known is not None:
            await self.stop(session_id, 0)
            if await self._waits_for_lost(await records.session(self._context.scripts, session_id)):
                return False
        return await self._launch(session, epoch, proxy_url, begun)

    async def _note_if_lost(self, session_id: str, handle: str, epoch: int) -> None:
        """Fence and note a worker that was stopped without proof, because its node does not answer."""
        session = await records.session(self._context.scripts, session_id)
        if session is None or session.worker_lost_at or not await self.lost.is_away(self.runner, handle):
            return
        if session.epoch > epoch or await self.fence(session) is not None:
            await self.lost.note(session)

    async def _waits_for_lost(self, session: Session | None) -> bool:
        """Whether a lost worker of the session may still speak; then it is queued again, after those that wait."""
        if session is None or not await self.lost.may_still_speak(session):
            return False
        await self.enqueue(session.id, front=False)
        return True

    async def _proxy_url(self, session: Session) -> str | None:
        """Return the URL of the session's proxy ('' for direct); None if it cannot start now."""
        if not session.proxy:
            if session.direct and self._context.settings.allow_direct:
                return ""
            await placement.assign_slot(self._context, session, ProxyReason.NO_PROXY)
            return None
        proxy = await records.proxy(self._context.scripts, session.proxy)
        if proxy is None or proxy.status == ProxyStatus.BAD:
            await placement.assign_slot(self._context, session, ProxyReason.PROXY_FAILED)
            return None
        # The worker of a moved session may still run: its slot is free only when it has exited.
        using = {sid for sid, known in self.workers.items() if known.proxy == proxy.id}
        using |= {sid for sid, on in self._starting.items() if on == proxy.id}
        if len(using - {session.id}) >= self._context.settings.max_sessions_per_proxy:
            await self.enqueue(session.id, front=False)
            return None
        return proxy.url

    async def _launch(self, session: Session, epoch: int, proxy_url: str, begun: Begun | None) -> bool:
        revision = await client_version.newest_revision(self._context.scripts)
        spec = replace(spec_for(self._context.settings, session, epoch, proxy_url, revision), node=session.move_to)
        changes = SessionChanges(restart_epoch=None, missed_at=0, worker_lost_at=0, node="")
        started = await transitions.apply(self._context, session.id, Event.WORKER_STARTED, changes)
        if started is None or started.epoch != epoch or not transitions.wants_worker(started):
            return False
        self._starting[session.id] = session.proxy
        try:
            if begun is not None:
                await begun()
            handle = await self.runner.start(spec)
        except AlreadyRunning:
            log.error("worker.already_running", session=session.id)
            await self.stop_all(session.id)
            await self.enqueue(session.id)
            return False
        except StartFailed as error:
            log.error("worker.start_failed", session=session.id, error=error.text)
            await self._forget_node(session)
            # The reconciler queues it again. Not at once: an engine that is being stopped refuses until it is away.
            await self._count_failure(session.id, Event.WORKER_DIED)
            return True
        except Unavailable as error:
            # The engine is away, or full. That says nothing about this session and must not use up its restarts.
            if isinstance(error, LostAtStart) and await self.fence(started) is not None:
                await self.lost.note(started)
            if isinstance(error, NoNodeForWorker):
                await self._forget_node(session)
            else:
                await self.engine_away()
            await self.enqueue(session.id)
            raise
        finally:
            del self._starting[session.id]
        self.workers[session.id] = KnownWorker(handle, epoch, session.proxy)
        if node := node_of(handle):
            await sessions.update(self._context.scripts, session.id, SessionChanges(node=node, move_to=""))
        await slots.release(self._context.scripts, session.id)  # the runner starts none while another one runs
        log.info("worker.started", session=session.id, epoch=epoch, proxy=session.proxy)
        return True

    async def _forget_node(self, session: Session) -> None:
        """Leave it to the engine where a session runs that did not start on the node which somebody chose."""
        if session.move_to:
            log.warning("session.node_refused", session=session.id, node=session.move_to)
            await sessions.update(self._context.scripts, session.id, SessionChanges(move_to=""))

    async def survey(self) -> Sequence[FoundWorker]:
        """Return every worker that runs. Raises Unavailable."""
        try:
            found = await self.runner.survey()
        except Unavailable:
            await self.engine_away()
            raise
        self.absence.answered()
        return found

    async def engine_away(self) -> None:
        """Note that the engine does not respond."""
        await self.absence.noticed(known.handle for known in self.workers.values())

    async def stop_all(self, session_id: str) -> None:
        """Stop every worker of a session that the runner finds, also those that this process does not know."""
        for found in await self.runner.survey():
            if found.session_id == session_id:
                await self.runner.stop(found.handle, SHORT_GRACE_S)
                await self._note_if_lost(session_id, found.handle, found.epoch)
        self.workers.pop(session_id, None)
        await slots.release(self._context.scripts, session_id)

    async def restart_or_give_up(self, session_id: str, event: Event) -> None:
        """Queue a session whose worker failed. After too many restarts the session fails and nothing runs."""
        if await self._count_failure(session_id, event):
            await self.enqueue(session_id)

    async def restart_uncounted(self, session_id: str, event: Event) -> None:
        """Queue a session whose worker ended through no failure of its own."""
        await transitions.apply(self._context, session_id, event)
        await self.enqueue(session_id)

    async def _count_failure(self, session_id: str, event: Event) -> bool:
        """Count the failure of a worker. Return False if there were too many, and the session has failed."""
        if await restart_limit.exceeded(self._context, session_id):
            await transitions.apply(self._context, session_id, Event.RESTARTED_TOO_OFTEN)
            log.error("session.restart_limit_reached", session=session_id)
            await self.stop(session_id, 0)
            return False
        await transitions.apply(self._context, session_id, event)
        return True
