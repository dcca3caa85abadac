"""Watches the memory of Redis: when it is full nothing new is accepted, so it is an alert before it is full."""

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.stream_events import EventType, RedisMemoryLow
from wa_orchestrator.store.engine import durability
from wa_orchestrator.store.events import event_stream

_EVERY_S = 60.0

log = structlog.get_logger(__name__)


class RedisMemoryMonitor:
    """Reports once when most of the memory is used, and again only after there was room."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._is_low = False

    async def step(self) -> float:
        used, most = await durability.memory_in_use(self._context.scripts)
        was_low, self._is_low = self._is_low, durability.is_memory_low(used, most)
        if self._is_low and not was_low:
            log.error("redis.memory_low", used_bytes=used, max_bytes=most)
            await event_stream.emit(self._context.scripts, EventType.REDIS_MEMORY_LOW, RedisMemoryLow(used, most))
        return _EVERY_S
