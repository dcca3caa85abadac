"""Commands to a worker besides sending (logout, pairing code, media): it takes them with its next claim."""

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts

#: How long a command waits for a late worker, and its result for a late caller.
KEEP_MS = 120_000
_MAX_WAITING = 20


@dataclass(frozen=True, slots=True)
class QueuedCommand:
    """A command that waits for its worker."""

    id: str
    text: str


async def push(scripts: Scripts, session_id: str, kind: str, **details: str) -> QueuedCommand:
    """Queue a command for a session's worker and wake it. A command that no worker takes expires."""
    command_id = f"c_{secrets.token_hex(9)}"
    text = json.dumps({"id": command_id, "kind": kind, **details})
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.rpush(keys.commands(session_id), text)
        pipe.ltrim(keys.commands(session_id), -_MAX_WAITING, -1)
        pipe.pexpire(keys.commands(session_id), KEEP_MS)
        pipe.publish(keys.OUTBOX_SIGNAL, session_id)
        await pipe.execute()
    return QueuedCommand(command_id, text)


async def cancel(scripts: Scripts, session_id: str, command: QueuedCommand) -> None:
    """Remove a command that no worker has taken."""
    await scripts.redis.lrem(keys.commands(session_id), 1, command.text)


async def take(scripts: Scripts, session_id: str) -> dict[str, Any] | None:
    text: Any = await scripts.redis.lpop(keys.commands(session_id))
    command: dict[str, Any] | None = json.loads(text) if text else None
    return command


async def put_result(scripts: Scripts, command_id: str, result: Mapping[str, Any]) -> None:
    """Store a worker's result for the caller that waits for it. A second result is dropped."""
    key = keys.command_result(command_id)
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.rpush(key, json.dumps(result))
        pipe.ltrim(key, 0, 0)
        pipe.pexpire(key, KEEP_MS)
        await pipe.execute()


async def wait_for_result(scripts: Scripts, command: QueuedCommand, timeout_s: float) -> dict[str, Any] | None:
    """Wait for the result of a command; None after `timeout_s`."""
    popped: Any = await scripts.redis.blpop([keys.command_result(command.id)], timeout=timeout_s)
    result: dict[str, Any] | None = None if popped is None else json.loads(popped[1])
    return result
