"""What the server asks of a worker beside sending: the worker takes it with its next claim."""

import json
import secrets

from wa_orchestrator.store import keys
from wa_orchestrator.web.context import Context

_MOST = 100


async def push(context: Context, session_id: str, kind: str, **details: str) -> str:
    """Put a command into the session's list and ring its bell. Gives the command's id."""
    command_id = f"c_{secrets.token_hex(8)}"
    command = {"id": command_id, "kind": kind, **details}
    await context.redis.rpush(keys.commands(session_id), json.dumps(command))
    await context.redis.ltrim(keys.commands(session_id), -_MOST, -1)
    await context.redis.publish(keys.BELL, session_id)
    return command_id
