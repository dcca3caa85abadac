"""Watches the disk: on a full one no worker can store anything, so it is an alert before it is full."""

import asyncio
import shutil
from pathlib import Path

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.stream_events import DiskLow, EventType
from wa_orchestrator.store.events import event_stream

_EVERY_S = 60.0
_LEAST_SHARE = 0.05
_LEAST_BYTES = 2 * 1024**3

log = structlog.get_logger(__name__)


def is_low(total_bytes: int, free_bytes: int) -> bool:
    """Whether a disk is nearly full: under 5 percent, or 2 GiB of a large one, are free."""
    return free_bytes < min(_LEAST_SHARE * total_bytes, _LEAST_BYTES)


class DiskMonitor:
    """Reports a disk once when it becomes nearly full, and again only after it had room."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._low: set[Path] = set()

    async def step(self) -> float:
        settings = self._context.settings
        for directory in sorted({settings.data_dir.absolute(), settings.sessions_dir.absolute()}):
            await self._check(directory)
        return _EVERY_S

    async def _check(self, directory: Path) -> None:
        existing = next(each for each in (directory, *directory.parents) if each.exists())
        usage = await asyncio.to_thread(shutil.disk_usage, existing)
        if not is_low(usage.total, usage.free):
            self._low.discard(directory)
        elif directory not in self._low:
            self._low.add(directory)
            log.error("disk.low", directory=str(directory), free_bytes=usage.free)
            await event_stream.emit(self._context.scripts, EventType.DISK_LOW, DiskLow(str(directory), usage.free))
