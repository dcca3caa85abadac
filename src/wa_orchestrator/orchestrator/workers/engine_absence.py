"""Engine absence: workers that an engine ended or refused while it was shutting down do not count as failures.

An engine that is stopped (an update, a restart of its machine) ends its workers first and goes away last. For some
seconds it still answers: workers have exited, new ones are accepted and end with it, the last ones are refused (seen
with Docker: 11 s, with a container that ignored SIGTERM). Only its absence shows what it was.
"""

from collections.abc import Iterable
from typing import Final

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.store import records
from wa_orchestrator.store.sessions import control_plane

#: An engine is away this long after it began to stop, at the latest.
STOPS_WITHIN_MS: Final = 60_000

log = structlog.get_logger(__name__)


class EngineAbsence:
    """Whether the engine is away, and which workers were started before that."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._is_away = False
        self._older: set[str] = set()

    async def noticed(self, handles: Iterable[str]) -> None:
        """The engine does not respond; these are the workers it had. What it ended shortly before is not counted."""
        self._older = set(handles)
        if self._is_away:
            return
        scripts = self._context.scripts
        since_ms = await scripts.now_ms() - STOPS_WITHIN_MS
        ids = [session.id for session in await records.sessions(scripts)]
        await control_plane.forget_restarts_since(scripts, ids, since_ms)
        self._is_away = True
        log.warning("engine.away", workers=len(self._older))

    def answered(self) -> None:
        """The engine responds."""
        self._is_away = False

    def survived(self, handle: str) -> None:
        """A worker runs: if it ends from now on, the last absence has nothing to do with it."""
        self.answered()
        self._older.discard(handle)

    def ended(self, handle: str) -> bool:
        """Whether a worker that has exited was last seen before an absence of the engine."""
        self.answered()
        was_older = handle in self._older
        self._older.discard(handle)
        return was_older
