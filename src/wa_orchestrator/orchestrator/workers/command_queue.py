"""What the server asks of a worker beside sending: the worker takes it with its next claim."""

import json
import secrets
from dataclasses import dataclass
from typing import Any

from wa_orchestrator.context import Context
from wa_orchestrator.store import keys

#: How long a command waits for a worker who is late, and its answer for an asker who is.
KEEP_MS = 120_000
_MOST_WAITING = 20


@dataclass(frozen=True, slots=True)
class QueuedCommand:
    """A command that waits for its worker."""

    id: str
    text: str


async def push(context: Context, session_id: str, kind: str, **details: str) -> QueuedCommand:
    """Put a command into the session's list and ring its bell. A command that nobody takes ends by itself."""
    command_id = f"c_{secrets.token_hex(9)}"
    text = json.dumps({"id": command_id, "kind": kind, **details})
    async with context.redis.pipeline(transaction=True) as pipe:
        pipe.rpush(keys.commands(session_id), text)
        pipe.ltrim(keys.commands(session_id), -_MOST_WAITING, -1)
        pipe.pexpire(keys.commands(session_id), KEEP_MS)
        pipe.publish(keys.OUTBOX_SIGNAL, session_id)
        await pipe.execute()
    return QueuedCommand(command_id, text)


async def take_back(context: Context, session_id: str, command: QueuedCommand) -> None:
    """Forget a command that no worker has taken in time."""
    await context.redis.lrem(keys.commands(session_id), 1, command.text)


async def take(context: Context, session_id: str) -> dict[str, Any] | None:
    """Take the oldest command that waits for a session's worker."""
    text: Any = await context.redis.lpop(keys.commands(session_id))
    command: dict[str, Any] | None = json.loads(text) if text else None
    return command
