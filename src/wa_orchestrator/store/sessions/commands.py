"""Commands to a worker besides sending (logout, pairing code, media): it takes them with its next claim."""

import json
import secrets
from collections.abc import Mapping
from typing import Any

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts

#: How long a command waits for a late worker, and its result for a late caller.
KEEP_MS = 120_000
_MAX_WAITING = 20


async def push(scripts: Scripts, session_id: str, kind: str, **details: str) -> tuple[str, str]:
    """Queue a command for a session's worker and wake it; return its id and text. One that nobody takes expires."""
    command_id = f"c_{secrets.token_hex(9)}"
    text = json.dumps({"id": command_id, "kind": kind, **details})
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.rpush(keys.commands(session_id), text)
        pipe.ltrim(keys.commands(session_id), -_MAX_WAITING, -1)
        pipe.pexpire(keys.commands(session_id), KEEP_MS)
        pipe.publish(keys.OUTBOX_SIGNAL, session_id)
        await pipe.execute()
    return command_id, text


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


async def run(
    scripts: Scripts, session_id: str, kind: str, *, timeout_s: float, **details: str
) -> dict[str, Any] | None:
    """Queue a command and return its result; None after `timeout_s`, when it is taken back from the queue."""
    command_id, text = await push(scripts, session_id, kind, **details)
    popped: Any = await scripts.redis.blpop([keys.command_result(command_id)], timeout=timeout_s)
    if popped is None:
        await scripts.redis.lrem(keys.commands(session_id), 1, text)
        return None
    result: dict[str, Any] = json.loads(popped[1])
    return result
