"""One survey for all polls of a second: hundreds of workers are polled every second, and a survey finds them all."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from wa_orchestrator.domain.reconcile import FoundWorker

_FRESH_S = 1.0


class SharedSurvey:
    """The handles that the last survey has found, for as long as it is fresh."""

    def __init__(self, survey: Callable[[], Awaitable[Sequence[FoundWorker]]]) -> None:
        self._survey = survey
        self._lock = asyncio.Lock()
        self._made_at = -_FRESH_S
        self._handles: frozenset[str] = frozenset()

    async def has(self, handle: str) -> bool:
        """Whether a worker runs."""
        async with self._lock:
            if time.monotonic() - self._made_at > _FRESH_S:
                self._handles = frozenset(found.handle for found in await self._survey())
                self._made_at = time.monotonic()
        return handle in self._handles

    def forget(self) -> None:
        """Make the next poll survey anew: a worker was started or stopped."""
        self._made_at = -_FRESH_S
