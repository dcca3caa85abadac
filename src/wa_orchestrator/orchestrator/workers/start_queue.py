"""Start queue: workers start one after another, so that many sessions do not log in at once.

Sessions that are to be linked start one per PROVISIONING_INTERVAL_MS. Linked ones come back at a pace of their own, by
RESTART_INTERVAL_MS: each from the address it always had, and while they are away nobody sends for them.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import AsyncExitStack

from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions import restart_pace
from wa_orchestrator.orchestrator.workers.cpu_headroom import CpuHeadroom
from wa_orchestrator.orchestrator.workers.pool import WorkerPool
from wa_orchestrator.runner.contract import PlacingRunner
from wa_orchestrator.store import records
from wa_orchestrator.store.sessions import control_plane
from wa_orchestrator.store.sessions.control_plane import StartKind

#: Restarts that are under way together where workers spread over several nodes.
STARTS_AT_ONCE = 4

_EMPTY_S = 0.1
_NOT_STARTED_S = 0.02


class StartQueue:
    """Starts the sessions that wait for it. Queue and times are in Redis: a restart of the server keeps them.

    The reconciler queues again what a crash lost.
    """

    def __init__(
        self,
        context: Context,
        pool: WorkerPool,
        headroom: CpuHeadroom | None = None,
        dice: Callable[[], float] = random.random,
    ) -> None:
        self._context = context
        self._pool = pool
        self._headroom = headroom or CpuHeadroom()
        self._dice = dice
        self._turn = asyncio.Lock()
        self.at_once = STARTS_AT_ONCE if isinstance(pool.runner, PlacingRunner) else 1
        """So many loops may step; together they look as often as one."""

    async def step(self) -> float:
        """Start the next session that is due. Return the seconds until the next look.

        Several loops may step. Each takes its turn, which for a restart ends when the pace is noted and the runner
        begins: an engine takes about a second for a start, and a lost node may leave hundreds.
        """
        async with AsyncExitStack() as turn:
            await turn.enter_async_context(self._turn)
            return await self._next(turn)

    async def _next(self, turn: AsyncExitStack) -> float:
        scripts = self._context.scripts
        now = await scripts.now_ms()
        plan = await control_plane.start_plan(scripts)
        settings = self._context.settings
        link_after_ms = plan.linked_last_ms + settings.provisioning_interval_ms
        link_wait_ms = _wait_ms(link_after_ms, settings.provisioning_interval_ms, now)
        longest_pause_ms = restart_pace.longest_pause_ms(settings.restart_interval_ms)
        restart_wait_ms = _wait_ms(plan.restart_after_ms, longest_pause_ms, now)
        if plan.restarts and restart_wait_ms <= 0:
            return await self._start(StartKind.RESTART, now, turn)
        if plan.links and link_wait_ms <= 0:
            return await self._start(StartKind.LINK, now, turn)
        waits = [link_wait_ms] * bool(plan.links) + [restart_wait_ms] * bool(plan.restarts)
        return min([_EMPTY_S * self.at_once, *(each / 1000 for each in waits)])

    async def _start(self, kind: StartKind, now: int, turn: AsyncExitStack) -> float:
        scripts = self._context.scripts
        session_id = await control_plane.dequeue_start(scripts, kind)
        if session_id is None:
            return 0
        session = await records.session(scripts, session_id)
        if session is not None and control_plane.start_kind(session) is not kind:
            # It was linked or logged out while it waited, or an older version queued it.
            await self._pool.enqueue(session_id)
            return 0

        async def restart_begun() -> None:
            interval_ms = self._context.settings.restart_interval_ms
            pause = restart_pace.pause_ms(interval_ms, idle_share=self._headroom.idle_share(), dice=self._dice())
            await control_plane.set_restart_after(scripts, now + pause)
            await turn.aclose()

        if not await self._pool.start(session_id, begun=restart_begun if kind is StartKind.RESTART else None):
            return _NOT_STARTED_S * self.at_once
        if kind is StartKind.LINK:
            await control_plane.record_link_start(scripts, now)
        return 0


def _wait_ms(after_ms: int, longest_ms: int, now: int) -> int:
    """Return the milliseconds until the next start; 0 if they exceed the longest pause: Redis' clock was set back."""
    wait_ms = after_ms - now
    return wait_ms if wait_ms <= longest_ms else 0
