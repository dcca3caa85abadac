"""The restart limit: a session whose worker fails too often is given up."""

from wa_orchestrator.context import Context
from wa_orchestrator.store.sessions import control_plane

#: At most this many restarts by the server's own decision within this time.
MAX_RESTARTS = 3
WINDOW_MS = 15 * 60_000


async def exceeded(context: Context, session_id: str) -> bool:
    """Count this restart. Return whether there were too many before it."""
    context.instruments.worker_restarts.inc()
    now_ms, window_ms = await context.scripts.now_ms(), round(context.settings.scaled(WINDOW_MS))
    before = await control_plane.count_restart(context.scripts, session_id, now_ms=now_ms, window_ms=window_ms)
    return before >= MAX_RESTARTS
