"""The stream of events: `emit` is its only writer in Python, as `lua/_event.lua` is in the scripts."""

from typing import Any, Final

from redis.asyncio.client import Pipeline

from wa_orchestrator.domain import stream_events
from wa_orchestrator.domain.stream_events import EventType, Payload
from wa_orchestrator.errors import Broken
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts

#: How many events are kept, about. The scripts use the same numbers.
MAX_EVENTS: Final = 100_000
MAX_SESSION_EVENTS: Final = 500


async def emit(scripts: Scripts, kind: EventType, payload: Payload, *, history: str = "") -> None:
    """Append an event to the stream, and to the history of session `history` when there is one."""
    async with scripts.redis.pipeline(transaction=True) as pipe:
        emit_in(pipe, kind, payload, at_ms=await scripts.now_ms(), history=history)
        await pipe.execute()


def emit_in(pipe: Pipeline, kind: EventType, payload: Payload, *, at_ms: int, history: str = "") -> None:
    """Append an event as part of a transaction."""
    if not isinstance(payload, kind.payload):
        raise Broken(f"{kind} has the payload {kind.payload.__name__}, not {type(payload).__name__}")
    fields: dict[Any, Any] = {"type": str(kind), "at": at_ms, **stream_events.encode(payload)}
    if history:
        pipe.xadd(keys.session_events(history), fields, maxlen=MAX_SESSION_EVENTS)
    pipe.xadd(keys.EVENTS, fields, maxlen=MAX_EVENTS)
