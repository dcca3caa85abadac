"""Loop runner: repeats a step until cancelled; knows intervals, wake-ups, leadership and errors with backoff."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import structlog

from wa_orchestrator.errors import Unavailable
from wa_orchestrator.store.engine.cancellation import end_if_cancelled
from wa_orchestrator.store.errors import RedisError

_FIRST_BACKOFF_S, _LONGEST_BACKOFF_S = 0.05, 1.0

log = structlog.get_logger(__name__)


class Runnable(Protocol):
    """A long-running task."""

    async def run(self) -> None:
        """Run until cancelled."""
        ...


class Leadership(Protocol):
    """Whether this process may act for the installation."""

    @property
    def is_leader(self) -> bool:
        """Whether this process leads now."""
        ...

    async def acquired(self) -> None:
        """Wait until this process leads."""
        ...


@dataclass(frozen=True, slots=True)
class Loop:
    """Repeats `step` until cancelled. An error ends a round, never the loop."""

    name: str
    step: Callable[[], Awaitable[float]]
    """Does one round. Returns the seconds until the next one; 0 for at once. Tests call it directly."""
    leadership: Leadership | None = None
    """Step only while this process leads."""
    on_standby: Callable[[], None] | None = None
    """Called before the loop waits for leadership: what it knew may be out of date when it leads again."""
    wake: asyncio.Event | None = None
    """Ends the wait between two rounds."""

    async def run(self) -> None:
        """Step until cancelled."""
        failures = 0
        while True:
            await self._lead()
            if self.wake is not None:
                self.wake.clear()
            try:
                wait_s = await self.step()
                failures = 0
            except Exception as error:  # one bad record must not stop all others
                failures += 1
                self._log(error)
            end_if_cancelled()
            if failures:  # not woken: the cause lasts
                await asyncio.sleep(min(_LONGEST_BACKOFF_S, _FIRST_BACKOFF_S * 2 ** min(failures - 1, 10)))
            else:
                await self._rest(wait_s)

    async def _lead(self) -> None:
        while self.leadership is not None and not self.leadership.is_leader:
            if self.on_standby is not None:
                self.on_standby()
            await self.leadership.acquired()

    def _log(self, error: Exception) -> None:
        if isinstance(error, RedisError | OSError | Unavailable):
            log.warning("loop.unavailable", loop=self.name, error=str(error))
        else:
            log.error("loop.step_failed", loop=self.name, exc_info=error)

    async def _rest(self, seconds: float) -> None:
        if self.wake is None or seconds <= 0:
            await asyncio.sleep(seconds)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.wake.wait()
