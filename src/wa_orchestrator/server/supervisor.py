"""Runs long-lived tasks, restarts those that fail, and turns signals into an orderly shutdown."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import structlog

from wa_orchestrator.loop import Loop, Runnable

_RESTART_S = 1.0
log = structlog.get_logger(__name__)


class Signals:
    """Signal handlers: the first signal sets `received`, a second SIGINT aborts."""

    def __init__(self) -> None:
        self.received = asyncio.Event()
        self.stop_workers = False
        """Set by SIGINT and SIGHUP; after SIGTERM the workers stay for the next server."""

    def __enter__(self) -> "Signals":
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        loop.add_signal_handler(signal.SIGTERM, self.received.set)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # under `nohup` the server outlives the terminal
            loop.add_signal_handler(signal.SIGHUP, self._hang_up)
        return self

    def __exit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)

    def _interrupt(self) -> None:
        if self.received.is_set():
            raise KeyboardInterrupt
        self._hang_up()

    def _hang_up(self) -> None:
        self.stop_workers = True
        self.received.set()


class CloseOnCancel:
    """Closes a resource when the server shuts down."""

    def __init__(self, close: Callable[[], Awaitable[None]]) -> None:
        self._close = close

    async def run(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await self._close()


class RunOnce:
    """A task that runs once and is not restarted, whether it succeeds or fails."""

    def __init__(self, task: Callable[[], Awaitable[None]]) -> None:
        self._task = task

    async def run(self) -> None:
        try:
            await self._task()
        except Exception as error:
            log.error("task.failed", exc_info=error)
        await asyncio.Event().wait()


@asynccontextmanager
async def supervised(loops: Sequence[Runnable]) -> AsyncIterator[None]:
    """Run loops while the block runs; one that fails is restarted."""
    tasks = [asyncio.create_task(_supervise(loop), name=_name(loop)) for loop in loops]
    try:
        yield
    finally:
        await _cancel(tasks)


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Cancel tasks until they have ended: redis-py swallows a cancellation that arrives while it connects."""
    pending: set[asyncio.Task[None]] = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=_RESTART_S)


async def _supervise(task: Runnable) -> None:
    while True:
        try:
            await task.run()
        except Exception as error:
            log.error("task.restarted", task=_name(task), exc_info=error)
        await asyncio.sleep(_RESTART_S)


def _name(task: Runnable) -> str:
    return task.name if isinstance(task, Loop) else type(task).__name__
