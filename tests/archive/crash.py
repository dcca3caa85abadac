"""A process that archives and dies: at a line of Python that its event loop or a thread of the archive executes."""

import asyncio
import itertools
import os
import signal
import sys
import threading
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any

from tests.archive.history import BEGIN_MS, DAY_MS
from wa_orchestrator.archive.archiver import BATCH, Archiver
from wa_orchestrator.archive.factory import archive_for
from wa_orchestrator.logs import configure
from wa_orchestrator.settings import Settings
from wa_orchestrator.store.engine.line_client import LineClient
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.history import ended_messages

HELD = f"local function now_ms() return {BEGIN_MS + 2 * DAY_MS} end"


class Fuse:
    """Counts executed lines, of all threads, and ends the process at one of them."""

    def __init__(self, dies_at: int) -> None:
        self._dies_at = dies_at
        self._count = itertools.count(1)
        self.executed = 0

    def trace(self, frame: FrameType, event: str, _arg: Any) -> Any:
        """Count the lines of the product and of the connection to Redis; how that packs its commands decides nothing."""
        code = frame.f_code
        ours = any(each in code.co_filename for each in ("wa_orchestrator", "redis/asyncio", "psycopg/"))
        if not ours or code.co_name.startswith("pack_command"):
            return None
        if event == "line":
            self.executed = next(self._count)
            if self.executed == self._dies_at:
                os.kill(os.getpid(), signal.SIGKILL)
        return self.trace


async def archive_all(redis_url: str, settings: Settings, fuse: Fuse) -> None:
    redis = LineClient.from_url(redis_url, decode_responses=True)
    scripts, archive = Scripts(redis, clock=HELD), archive_for(settings)
    archiver = Archiver(settings, scripts, archive)
    await scripts.load()
    threading.settrace(fuse.trace)
    sys.settrace(fuse.trace)
    # A coroutine that runs already is not traced: what it calls from here on is.
    while await archiver.step() < 1 or await _is_left(scripts):
        pass
    sys.settrace(None)
    await archive.close()
    await redis.aclose()


async def _is_left(scripts: Scripts) -> bool:
    return bool(await ended_messages.copies(scripts, BEGIN_MS + DAY_MS, most=BATCH))


def run(redis_url: str, settings: Settings, dies_at: int, executed: Connection) -> None:
    """Archive until nothing is left to do, or die at this line; 0 lives. Sends how many lines were executed."""
    configure("error")
    fuse = Fuse(dies_at)
    asyncio.run(archive_all(redis_url, settings, fuse))
    executed.send(fuse.executed)
