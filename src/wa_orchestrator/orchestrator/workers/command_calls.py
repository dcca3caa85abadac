"""Calls to a worker besides sending: queue a command, wait for its result."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wa_orchestrator.context import Context
from wa_orchestrator.errors import Refused, Unavailable
from wa_orchestrator.store.sessions import commands


@dataclass(frozen=True, slots=True)
class CommandResult:
    """A worker's result. `content` holds bytes if it is a file."""

    fields: Mapping[str, Any]
    content: bytes | None = None
    mimetype: str = ""


async def call(context: Context, session_id: str, kind: str, *, timeout_s: float, **fields: str) -> CommandResult:
    """Send a command to a session's worker and return its result.

    Commands are `logout`, `pairing_code` with `phone`, and `fetch_media` with `whatsappId`. Raises `Unavailable` if the
    worker does not respond in time, and `Refused` with the worker's code if the command fails.
    """
    command = await commands.push(context.scripts, session_id, kind, **fields)
    result = await commands.wait_for_result(context.scripts, command, timeout_s)
    if result is None:
        await commands.cancel(context.scripts, session_id, command)
        raise Unavailable("WORKER_SILENT", f"The worker of {session_id} did not respond in time. Try again in a while.")
    return _decode(result)


def _decode(raw: Mapping[str, Any]) -> CommandResult:
    if "base64" in raw:
        return CommandResult({}, base64.b64decode(raw["base64"]), str(raw["mimetype"]))
    if not raw.get("ok"):
        code = str(raw.get("code") or "FAILED")
        raise Refused(code, f"The worker could not do it: {code}. See its log for the cause, then try again.", 409)
    return CommandResult({name: value for name, value in raw.items() if name != "ok"})
