"""Asking a worker for something besides sending: a command goes out with its next claim, and the answer comes back."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wa_orchestrator.context import Context
from wa_orchestrator.errors import Refused, Unavailable
from wa_orchestrator.orchestrator.workers import command_queue
from wa_orchestrator.store import keys


@dataclass(frozen=True, slots=True)
class WorkerCommand:
    """What is asked: `logout`, `pairing_code` with `phone`, or `fetch_media` with `whatsappId`."""

    kind: str
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What the worker answered. `content` holds bytes where it answered with a file."""

    fields: Mapping[str, Any]
    content: bytes | None = None
    mimetype: str = ""


async def ask(context: Context, session_id: str, command: WorkerCommand, timeout_s: float) -> CommandResult:
    """Ask the worker of a session and wait for its answer.

    Raises `Unavailable` when it does not answer in time, and `Refused` with the worker's own code when it will not.
    """
    pushed = await command_queue.push(context, session_id, command.kind, **command.fields)
    answer: Any = await context.redis.blpop([keys.command_result(pushed.id)], timeout=timeout_s)
    if answer is None:
        await command_queue.take_back(context, session_id, pushed)
        raise Unavailable("WORKER_SILENT", f"The worker of {session_id} did not answer in time. Try again in a while.")
    return _read(json.loads(answer[1]))


def _read(raw: Mapping[str, Any]) -> CommandResult:
    if "base64" in raw:
        return CommandResult({}, base64.b64decode(raw["base64"]), str(raw["mimetype"]))
    if not raw.get("ok"):
        code = str(raw.get("code") or "FAILED")
        raise Refused(
            code, f"The worker could not do it: {code}. Its log says more; try again when that is cured.", 409
        )
    return CommandResult({name: value for name, value in raw.items() if name != "ok"})


async def answer_with(context: Context, command_id: str, answer: Mapping[str, Any]) -> None:
    """Hand a worker's answer to whoever asked; a second answer replaces nothing."""
    async with context.redis.pipeline(transaction=True) as pipe:
        pipe.rpush(keys.command_result(command_id), json.dumps(answer))
        pipe.ltrim(keys.command_result(command_id), 0, 0)
        pipe.pexpire(keys.command_result(command_id), command_queue.KEEP_MS)
        await pipe.execute()
