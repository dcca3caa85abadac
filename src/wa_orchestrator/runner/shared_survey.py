"""Shares one survey among all polls of a second: hundreds of workers are polled every second."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from wa_orchestrator.domain.sessions.reconciliation import FoundWorker
from wa_orchestrator.runner.contract import Exited, Lost, Running

_FRESH_S = 1.0


class SharedSurvey:
    """The workers that the last survey has found, for as long as it is fresh."""

    def __init__(self, survey: Callable[[], Awaitable[Sequence[FoundWorker]]]) -> None:
        self._survey = survey
        self._lock = asyncio.Lock()
        self._made_at = -_FRESH_S
        self._found: dict[str, FoundWorker] = {}

    async def poll(self, handle: str) -> Running | Exited | Lost:
        """Answer a poll."""
        async with self._lock:
            if time.monotonic() - self._made_at > _FRESH_S:
                self._found = {found.handle: found for found in await self._survey()}
                self._made_at = time.monotonic()
        if (found := self._found.get(handle)) is None:
            return Exited()
        return Lost() if found.is_lost else Running()

    def forget(self) -> None:
        """Make the next poll survey anew: a worker was started or stopped."""
        self._made_at = -_FRESH_S
