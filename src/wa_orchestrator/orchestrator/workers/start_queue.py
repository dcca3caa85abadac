"""Start queue: at most one worker starts per interval, so that many sessions do not log in at once."""

from wa_orchestrator.context import Context
from wa_orchestrator.orchestrator.workers.pool import WorkerPool
from wa_orchestrator.store.sessions import control_plane


async def start_next(context: Context, pool: WorkerPool) -> float:
    """Start the next session of the queue, if one is due. Return the seconds until the next look.

    The queue and the last start are in Redis: a restart keeps both. The reconciler queues again what a crash lost.
    """
    scripts, interval_ms = context.scripts, context.settings.provisioning_interval_ms
    now = await scripts.now_ms()
    wait_ms = min(interval_ms, await control_plane.last_start_ms(scripts) + interval_ms - now)
    if wait_ms > 0:
        return wait_ms / 1000
    session_id = await control_plane.dequeue_start(scripts)
    if session_id is None:
        return 0.1
    if not await pool.start(session_id):
        return 0.02
    await control_plane.record_start(scripts, now)
    return 0
