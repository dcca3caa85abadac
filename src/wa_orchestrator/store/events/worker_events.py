"""Which events of workers were received: each is handled once, and one whose handling failed may come again."""

import hashlib
from enum import Enum, auto
from typing import Any, Final

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts

#: For how long an event that is being handled makes its repetitions wait.
_IN_PROGRESS_MS: Final = 30_000
_IN_PROGRESS: Final = "working"
_MAX_ID_LENGTH: Final = 200


class Seen(Enum):
    """Whether an event came before."""

    NEW = auto()
    IN_PROGRESS = auto()
    ACCEPTED = auto()


async def begin(scripts: Scripts, session_id: str, event_id: str) -> Seen:
    """Reserve an event for handling, unless it came before."""
    key = keys.heard(session_id, event_id[:_MAX_ID_LENGTH])
    before: Any = await scripts.redis.set(key, _IN_PROGRESS, nx=True, px=_IN_PROGRESS_MS, get=True)
    if before is None:
        return Seen.NEW
    return Seen.IN_PROGRESS if before == _IN_PROGRESS else Seen.ACCEPTED


async def accept(scripts: Scripts, session_id: str, event_id: str, body: bytes, *, keep_ms: int) -> None:
    key = keys.heard(session_id, event_id[:_MAX_ID_LENGTH])
    await scripts.redis.set(key, hashlib.sha256(body).hexdigest(), px=keep_ms)


async def release(scripts: Scripts, session_id: str, event_id: str) -> None:
    """Let an event that could not be handled come again."""
    await scripts.redis.delete(keys.heard(session_id, event_id[:_MAX_ID_LENGTH]))
