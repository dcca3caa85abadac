"""Hearing what is published: one connection per process, handed on to whoever waits in it."""

import asyncio
from collections.abc import Callable, Mapping

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

#: Gets what was published, or None when the connection is new and something may have been missed.
Heard = Callable[[str | None], None]
_RETRY_S = 0.2
_ASK_S = 1.0

log = structlog.get_logger(__name__)


class Listener:
    """Listens on some channels for as long as `run` runs, over every outage of Redis."""

    def __init__(self, redis: Redis, on: Mapping[str, Heard]) -> None:
        """Call the function of a channel for everything that is published there; it must not block."""
        self._redis = redis
        self._on = dict(on)
        self.connected = asyncio.Event()

    async def run(self) -> None:
        """Listen until cancelled."""
        while True:
            try:
                await self._listen()
            except (RedisError, OSError) as error:
                end_if_cancelled()
                log.warning("listener.lost", error=str(error))
            finally:
                self.connected.clear()
            await asyncio.sleep(_RETRY_S)

    async def _listen(self) -> None:
        async with self._redis.pubsub() as channel:
            await channel.subscribe(*self._on)
            while True:
                end_if_cancelled()
                # The timeout is no error: it lets the client notice a connection that died without a word.
                message = await channel.get_message(timeout=_ASK_S)
                if message is None:
                    await channel.ping()
                elif message["type"] == "subscribe":
                    self._tell(str(message["channel"]), None)
                elif message["type"] == "message":
                    self._tell(str(message["channel"]), str(message["data"]))

    def _tell(self, channel: str, said: str | None) -> None:
        if said is None:
            self.connected.set()
        self._on[channel](said)


def end_if_cancelled() -> None:
    """End a loop whose cancellation the Redis client has kept to itself. While it connects it takes one for an error of
    the connection, tells that, or tries again and succeeds. Ask before every sleep: nobody cancels a second time.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
