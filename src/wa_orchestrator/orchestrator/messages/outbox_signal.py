"""Waking those who wait for a session's outbox: one connection to Redis per process, however many workers wait."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from redis.asyncio import Redis

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.pubsub import Listener


class Bells:
    """The bells of all sessions that somebody waits for in this process. It begins to listen with the first of them."""

    def __init__(self, redis: Redis) -> None:
        """Listen on this Redis."""
        self._listener = Listener(redis, {keys.BELL: self._ring})
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def waiting(self, session_id: str) -> Iterator[asyncio.Event]:
        """Give a bell that rings whenever the session's outbox or commands get something."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._listener.run())
        bell = asyncio.Event()
        self._waiting[session_id].add(bell)
        try:
            yield bell
        finally:
            self._waiting[session_id].discard(bell)
            if not self._waiting[session_id]:
                del self._waiting[session_id]

    async def ready(self) -> None:
        """Wait until everything that is published from now on is heard."""
        await self._listener.connected.wait()

    async def close(self) -> None:
        """Stop listening."""
        while self._task is not None and not self._task.done():
            self._task.cancel()  # once is not enough: the Redis client may swallow it while it connects
            await asyncio.wait({self._task}, timeout=0.05)

    def _ring(self, session_id: str | None) -> None:
        if session_id is None:  # the connection is new: what was missed may concern anybody
            rung = [bell for bells in self._waiting.values() for bell in bells]
        else:
            rung = list(self._waiting.get(session_id, ()))
        for bell in rung:
            bell.set()
