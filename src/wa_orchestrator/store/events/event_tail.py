"""Tail of the stream of events: one blocking read per process wakes all its followers."""

import asyncio

import structlog
from redis.exceptions import RedisError

from wa_orchestrator.store.engine.cancellation import end_if_cancelled
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events.event_stream import cursor_order, last_cursor, wait

_BLOCK_MS = 5_000
_RETRY_S = 0.5

log = structlog.get_logger(__name__)


class Tail:
    """Waits for new events. It reads only while it has followers."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts
        self._newest = "0"
        self._changed = asyncio.Event()
        self._followers = 0
        self._task: asyncio.Task[None] | None = None

    async def after(self, cursor: str) -> None:
        """Return when there is an event after this cursor."""
        self._followers += 1
        try:
            # Without an await before it: of many followers that come together, one starts the reader.
            if self._task is None or self._task.done():
                self._task = asyncio.get_running_loop().create_task(self._read())
            while cursor_order(self._newest) <= cursor_order(cursor):
                await self._changed.wait()
        finally:
            self._followers -= 1

    async def close(self) -> None:
        while self._task is not None and not self._task.done():
            self._task.cancel()  # once is not enough: the Redis client may swallow it while it connects
            await asyncio.wait({self._task}, timeout=0.05)

    async def _read(self) -> None:
        begun = False
        while self._followers:
            try:
                if not begun:
                    self._notify(await last_cursor(self._scripts))
                    begun = True
                entries = await wait(self._scripts, after=self._newest, most=1000, block_ms=_BLOCK_MS)
            except (RedisError, OSError) as error:
                end_if_cancelled()
                log.warning("event_tail.disconnected", error=str(error))
                await asyncio.sleep(_RETRY_S)
                continue
            if entries:
                self._notify(entries[-1].cursor)

    def _notify(self, newest: str) -> None:
        self._newest = newest
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
