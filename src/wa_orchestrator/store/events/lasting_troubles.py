"""Troubles that begin without an event of their own: people are told once when one begins to last."""

from collections.abc import Mapping
from typing import Any

from wa_orchestrator.domain.stream_events import EventType, Payload
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import event_stream

Troubles = Mapping[str, tuple[EventType, Payload]]
"""The event of each trouble, by a name that stays the same while it lasts."""


async def report(scripts: Scripts, found: Troubles) -> None:
    """Emit the events of troubles that are new, and forget those that are over. Only the leader calls it."""
    known: Any = await scripts.redis.smembers(keys.LASTING_TROUBLES)
    new, over = found.keys() - known, known - found.keys()
    if not new and not over:
        return
    now_ms = await scripts.now_ms()
    async with scripts.redis.pipeline(transaction=True) as pipe:
        if over:
            pipe.srem(keys.LASTING_TROUBLES, *over)
        for name in sorted(new):
            kind, payload = found[name]
            pipe.sadd(keys.LASTING_TROUBLES, name)
            event_stream.emit_in(pipe, kind, payload, at_ms=now_ms)
        await pipe.execute()
