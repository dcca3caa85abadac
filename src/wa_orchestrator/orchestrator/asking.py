"""Asking a worker for something besides sending: a command goes out with its next claim, and the answer comes back."""

import base64
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wa_orchestrator.errors import Refused, Unavailable
from wa_orchestrator.store import keys
from wa_orchestrator.web.context import Context

#: How long an answer is kept for an asker who is late, and a command for a worker who is.
KEEP_MS = 120_000
MOST_WAITING = 20


@dataclass(frozen=True, slots=True)
class Command:
    """What is asked: `logout`, `pairing_code` with `phone`, or `fetch_media` with `whatsappId`."""

    kind: str
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Result:
    """What the worker answered. `content` holds bytes where it answered with a file."""

    fields: Mapping[str, Any]
    content: bytes | None = None
    mimetype: str = ""


async def ask(context: Context, session_id: str, command: Command, timeout_s: float) -> Result:
    """Ask the worker of a session and wait for its answer.

    Raises `Unavailable` when it does not answer in time, and `Refused` with the worker's own code when it will not.
    """
    name = f"c_{secrets.token_hex(9)}"
    text = json.dumps({"id": name, "kind": command.kind, **command.fields})
    async with context.redis.pipeline(transaction=True) as pipe:
        pipe.rpush(keys.commands(session_id), text)
        pipe.ltrim(keys.commands(session_id), -MOST_WAITING, -1)
        pipe.pexpire(keys.commands(session_id), KEEP_MS)
        pipe.publish(keys.BELL, session_id)
        await pipe.execute()
    answer: Any = await context.redis.blpop([keys.command_result(name)], timeout=timeout_s)
    if answer is None:
        await context.redis.lrem(keys.commands(session_id), 1, text)
        raise Unavailable("WORKER_SILENT", f"The worker of {session_id} did not answer in time. Try again in a while.")
    return _read(json.loads(answer[1]))


def _read(raw: Mapping[str, Any]) -> Result:
    if "base64" in raw:
        return Result({}, base64.b64decode(raw["base64"]), str(raw["mimetype"]))
    if not raw.get("ok"):
        code = str(raw.get("code") or "FAILED")
        raise Refused(code, f"The worker could not do it: {code}.", 409)
    return Result({name: value for name, value in raw.items() if name != "ok"})


async def answer_with(context: Context, command_id: str, answer: Mapping[str, Any]) -> None:
    """Hand a worker's answer to whoever asked; a second answer replaces nothing."""
    async with context.redis.pipeline(transaction=True) as pipe:
        pipe.rpush(keys.command_result(command_id), json.dumps(answer))
        pipe.ltrim(keys.command_result(command_id), 0, 0)
        pipe.pexpire(keys.command_result(command_id), KEEP_MS)
        await pipe.execute()


async def next_command(context: Context, session_id: str) -> dict[str, Any] | None:
    """Take the oldest command that waits for a session's worker."""
    text: Any = await context.redis.lpop(keys.commands(session_id))
    command: dict[str, Any] | None = json.loads(text) if text else None
    return command
