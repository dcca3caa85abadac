"""The one loop: a step, again and again, which survives what a step may raise."""

import asyncio
from typing import Protocol

import structlog
from redis.exceptions import RedisError

from wa_orchestrator.errors import Unavailable
from wa_orchestrator.store.engine.pubsub import end_if_cancelled

log = structlog.get_logger(__name__)
_AFTER_ERROR_S = 0.5


class Steps(Protocol):
    """Something that is done in steps."""

    async def step(self) -> float:
        """Do one round. Gives the seconds to wait before the next."""
        ...


async def run(name: str, steps: Steps) -> None:
    """Step until cancelled. An error ends a round, never the loop."""
    while True:
        try:
            wait_s = await steps.step()
        except (RedisError, OSError, Unavailable) as error:
            log.warning("loop.unavailable", loop=name, error=str(error))
            wait_s = _AFTER_ERROR_S
        except Exception as error:
            log.error("loop.broken", loop=name, exc_info=error)
            wait_s = _AFTER_ERROR_S
        end_if_cancelled()
        await asyncio.sleep(wait_s)
