"""Checks that Redis keeps what it acknowledges. If it may not, the log says so, and every page."""

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.store.engine import durability
from wa_orchestrator.texts.catalogue import text

_EVERY_S = 60.0

log = structlog.get_logger(__name__)


class RedisCheck:
    """Reads the settings of Redis: they can change while it runs."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def step(self) -> float:
        """Warn about every weakness that is new."""
        found = await durability.weaknesses(self._context.scripts)
        for code in set(found) - set(self._context.redis_weaknesses):
            log.warning("redis.not_durable", code=code, text=text("en", f"redis_weakness.{code}"))
        self._context.redis_weaknesses = found
        return _EVERY_S
