"""Start queue: at most one worker starts per interval, so that many sessions do not log in at once."""

from wa_orchestrator.context import Context
from wa_orchestrator.orchestrator.workers.pool import WorkerPool
from wa_orchestrator.store.sessions import control_plane

_IDLE_S = 0.1


class StartQueue:
    """Starts the next session of the queue. The queue and the last start are in Redis: a restart keeps both."""

    def __init__(self, context: Context, pool: WorkerPool) -> None:
        self._context = context
        self._pool = pool

    async def step(self) -> float:
        """Start one worker, if one is due. The reconciler queues again what a crash lost from the queue."""
        scripts = self._context.scripts
        wait_ms = await self._until_next_ms()
        if wait_ms > 0:
            return wait_ms / 1000
        session_id = await control_plane.dequeue_start(scripts)
        if session_id is None:
            return _IDLE_S
        now = await scripts.now_ms()
        if await self._pool.start(session_id):
            await control_plane.record_start(scripts, now)
            return 0
        return 0.02

    async def _until_next_ms(self) -> int:
        last = await control_plane.last_start_ms(self._context.scripts)
        interval = self._context.settings.provisioning_interval_ms
        return max(0, min(interval, last + interval - await self._context.scripts.now_ms()))
