"""Wakes workers that wait for their session's outbox: one connection to Redis per process, however many wait."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.pubsub import Listener
from wa_orchestrator.store.engine.scripts import Scripts


class OutboxSignals:
    """Signals per session, for the workers that wait in this process. It begins to listen with the first of them."""

    def __init__(self, scripts: Scripts) -> None:
        self._listener = Listener(scripts, {keys.OUTBOX_SIGNAL: self._signal})
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._task: asyncio.Task[None] | None = None
        self.is_closed = False

    @contextmanager
    def subscribe(self, session_id: str) -> Iterator[asyncio.Event]:
        """Yield an event that is set whenever the session's outbox or commands get something."""
        if not self.is_closed and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._listener.run())
        signal = asyncio.Event()
        self._waiting[session_id].add(signal)
        try:
            yield signal
        finally:
            self._waiting[session_id].discard(signal)
            if not self._waiting[session_id]:
                del self._waiting[session_id]

    async def ready(self) -> None:
        """Wait until everything that is published from now on is received."""
        await self._listener.connected.wait()

    async def close(self) -> None:
        """Stop listening, and let nobody wait any more: a request that is cut off at the end would be an error."""
        self.is_closed = True
        self._signal(None)
        while self._task is not None and not self._task.done():
            self._task.cancel()  # once is not enough: the Redis client may swallow it while it connects
            await asyncio.wait({self._task}, timeout=0.05)

    def _signal(self, session_id: str | None) -> None:
        if session_id is None:  # the connection is new: what was missed may concern any session
            waiting = [signal for signals in self._waiting.values() for signal in signals]
        else:
            waiting = list(self._waiting.get(session_id, ()))
        for signal in waiting:
            signal.set()
