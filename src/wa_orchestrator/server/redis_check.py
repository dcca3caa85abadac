"""Checks that Redis keeps what it acknowledges. If it may not, the log says so, and every page."""

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.store.engine import durability
from wa_orchestrator.texts.catalogue import text

_EVERY_S = 60.0

log = structlog.get_logger(__name__)


async def check_redis(context: Context) -> float:
    """Warn about every weakness that is new: the settings of Redis can change while it runs."""
    found = await durability.weaknesses(context.scripts)
    for code in set(found) - set(context.redis_weaknesses):
        log.warning("redis.not_durable", code=code, text=text("en", f"redis_weakness.{code}"))
    context.redis_weaknesses = found
    return _EVERY_S
