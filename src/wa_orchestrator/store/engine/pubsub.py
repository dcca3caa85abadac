"""Redis pub/sub listener: one connection per process, callbacks per channel."""

import asyncio
from collections.abc import Callable, Mapping

import structlog
from redis.exceptions import RedisError

from wa_orchestrator.store.engine.cancellation import end_if_cancelled
from wa_orchestrator.store.engine.scripts import Scripts

#: Gets what was published, or None when the connection is new and something may have been missed.
OnMessage = Callable[[str | None], None]
_RETRY_S = 0.2
_POLL_S = 1.0

log = structlog.get_logger(__name__)


class Listener:
    """Listens on some channels while `run` runs, through every outage of Redis."""

    def __init__(self, scripts: Scripts, callbacks: Mapping[str, OnMessage]) -> None:
        """Call the function of a channel for everything that is published there; it must not block."""
        self._redis = scripts.redis
        self._callbacks = dict(callbacks)
        self.connected = asyncio.Event()

    async def run(self) -> None:
        while True:
            try:
                await self._listen()
            except (RedisError, OSError) as error:
                end_if_cancelled()
                log.warning("pubsub.disconnected", error=str(error))
            finally:
                self.connected.clear()
            await asyncio.sleep(_RETRY_S)

    async def _listen(self) -> None:
        async with self._redis.pubsub() as pubsub:
            await pubsub.subscribe(*self._callbacks)
            while True:
                end_if_cancelled()
                # The timeout is no error: it lets the client notice a connection that died silently.
                message = await pubsub.get_message(timeout=_POLL_S)
                if message is None:
                    await pubsub.ping()
                elif message["type"] == "subscribe":
                    self.connected.set()
                    self._callbacks[str(message["channel"])](None)
                elif message["type"] == "message":
                    self._callbacks[str(message["channel"])](str(message["data"]))
