"""Commands to a worker besides sending (logout, pairing code, media): it takes them with its next claim."""

import json
import secrets
from collections.abc import Mapping
from typing import Any

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Argument, Scripts

#: How long a command waits for a late worker.
KEEP_MS = 120_000
#: How long a result is kept: its caller waits for it, and takes it at once.
_KEEP_RESULT_MS = 10_000
_MAX_WAITING = 20


async def push(scripts: Scripts, session_id: str, kind: str, **details: str) -> None:
    """Queue a command for a session's worker and wake it. One that nobody takes expires; nobody reads its result."""
    await _ask(scripts, session_id, kind, details, how="unheard", answer_ms=KEEP_MS)


async def _ask(
    scripts: Scripts, session_id: str, kind: str, details: Mapping[str, str], *, how: str, answer_ms: int
) -> tuple[str, str]:
    """Queue a command; return its id and text. Its worker may answer it for `answer_ms`."""
    command_id = f"c_{secrets.token_hex(9)}"
    text = json.dumps({"id": command_id, "kind": kind, **details})
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.set(keys.command_question(command_id), f"{how} {session_id}", px=answer_ms)
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


async def put_result(scripts: Scripts, session_id: str, command_id: str, result: Mapping[str, Any]) -> bool:
    """Store a worker's result for the caller that waits. False if this session was not asked, or has answered."""
    names = [keys.command_question(command_id), keys.command_result(command_id)]
    args: list[Argument] = [session_id, json.dumps(result), _KEEP_RESULT_MS]
    return await scripts.whether("put_command_result", names, args, stored=True, unasked=False)


async def is_asked(scripts: Scripts, session_id: str, command_id: str) -> bool:
    """Whether a session's worker may answer a command; to be known before its result is read."""
    asked = str(await scripts.redis.get(keys.command_question(command_id)) or "")
    return asked.partition(" ")[2] == session_id


async def run(
    scripts: Scripts, session_id: str, kind: str, *, timeout_s: float, **details: str
) -> dict[str, Any] | None:
    """Queue a command and return its result; None after `timeout_s`, when it is taken back from the queue.

    `id` in the result is the command's own, whatever its worker says: a file that it sent has that name.
    """
    command_id, text = await _ask(scripts, session_id, kind, details, how="awaited", answer_ms=round(timeout_s * 1000))
    popped: Any = await scripts.redis.blpop([keys.command_result(command_id)], timeout=timeout_s)
    if popped is None:
        await scripts.redis.delete(keys.command_question(command_id))
        await scripts.redis.lrem(keys.commands(session_id), 1, text)
        return None
    result: dict[str, Any] = json.loads(popped[1])
    return result | {"id": command_id}
