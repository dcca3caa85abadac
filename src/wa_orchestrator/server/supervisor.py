"""What keeps a process going: loops that are started again when they break, and signals that end it."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

import structlog

_RESTART_S = 1.0
log = structlog.get_logger(__name__)


class Loop(Protocol):
    """A long-running task."""

    async def run(self) -> None:
        """Run until cancelled."""
        ...


class Signals:
    """What the operating system told us: `ended` is set by the first signal, the second SIGINT is final."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.by_person = False

    def __enter__(self) -> "Signals":
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        loop.add_signal_handler(signal.SIGTERM, self.ended.set)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # `nohup` asks us to outlive the terminal
            loop.add_signal_handler(signal.SIGHUP, self._hang_up)
        return self

    def __exit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)

    def _interrupt(self) -> None:
        if self.ended.is_set():
            raise KeyboardInterrupt
        self._hang_up()

    def _hang_up(self) -> None:
        self.by_person = True
        self.ended.set()


class Closing:
    """Waits until everything ends, and then lets go of something."""

    def __init__(self, close: Callable[[], Awaitable[None]]) -> None:
        self._close = close

    async def run(self) -> None:
        """Wait until cancelled."""
        try:
            await asyncio.Event().wait()
        finally:
            await self._close()


class Once:
    """A task that is done once and not again."""

    def __init__(self, task: Callable[[], Awaitable[None]]) -> None:
        self._task = task

    async def run(self) -> None:
        """Do it, and then nothing."""
        try:
            await self._task()
        except Exception as error:
            log.error("task.failed", exc_info=error)
        await asyncio.Event().wait()


@asynccontextmanager
async def supervised(loops: Sequence[Loop]) -> AsyncIterator[None]:
    """Run loops while the block runs; one that breaks is started again."""
    tasks = [asyncio.create_task(_supervise(loop), name=type(loop).__name__) for loop in loops]
    try:
        yield
    finally:
        await _ended(tasks)


async def _ended(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel tasks until they have ended: the Redis client forgets a cancellation that meets it while it connects."""
    pending: set[asyncio.Task[None]] = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=_RESTART_S)


async def _supervise(loop: Loop) -> None:
    while True:
        try:
            await loop.run()
        except Exception as error:
            log.error("task.broken", task=type(loop).__name__, exc_info=error)
        await asyncio.sleep(_RESTART_S)
