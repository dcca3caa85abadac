"""Calls to a worker besides sending: queue a command, wait for its result."""

from collections.abc import Mapping
from typing import Any

from wa_orchestrator.context import Context
from wa_orchestrator.errors import Refused, Unavailable
from wa_orchestrator.store.sessions import commands


async def call(context: Context, session_id: str, kind: str, *, timeout_s: float, **fields: str) -> Mapping[str, Any]:
    """Send a command (`logout`, or `pairing_code` with `phone`) to a session's worker and return its result.

    Raises `Unavailable` if the worker does not respond in time, and `Refused` with the worker's code if it fails.
    """
    result = await commands.run(context.scripts, session_id, kind, timeout_s=timeout_s, **fields)
    if result is None:
        raise Unavailable("WORKER_SILENT", f"The worker of {session_id} did not respond in time. Try again in a while.")
    if not result.get("ok"):
        code = str(result.get("code") or "FAILED")
        raise Refused(code, f"The worker could not do it: {code}. See its log for the cause, then try again.", 409)
    return result
