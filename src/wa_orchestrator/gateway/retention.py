"""Erases old data: the texts of ended messages first, then the messages, and unused files."""

from typing import Final

import structlog

from wa_orchestrator.loop import Loop
from wa_orchestrator.messages import uploads
from wa_orchestrator.settings import Settings
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.history import retention
from wa_orchestrator.store.messages import message_index

_DAY_MS: Final = 86_400_000
#: Messages per step; the next step follows at once while there are more.
BATCH: Final = 200
#: Messages of an earlier version that are indexed per step.
_INDEXED: Final = 1_000
_IDLE_S: Final = 300.0
_BUSY_S: Final = 0.2

log = structlog.get_logger(__name__)


class Retention:
    """Erases in small steps. Any number may run: every step is idempotent."""

    def __init__(self, settings: Settings, scripts: Scripts) -> None:
        self._settings = settings
        self._scripts = scripts

    async def run(self) -> None:
        """Run until cancelled."""
        await Loop("retention", self.step).run()

    async def step(self) -> float:
        """Erase one batch, and index one that an earlier version stored. Return the seconds until the next one."""
        indexed = await message_index.add_older(self._scripts, most=_INDEXED)
        return _BUSY_S if await self.erase() + indexed else _IDLE_S

    async def erase(self) -> int:
        """Erase one batch of each kind. Return how much was erased."""
        now_ms = await self._scripts.now_ms()
        bodies_until_ms = now_ms - self._settings.body_retention_days * _DAY_MS
        until_ms = now_ms - self._settings.message_retention_days * _DAY_MS
        bodies = await retention.erase_bodies(self._scripts, bodies_until_ms, most=BATCH)
        messages = 0
        for message_id in await retention.ended_until(self._scripts, until_ms, most=BATCH):
            messages += await retention.erase(self._scripts, message_id, until_ms=until_ms)
        files = await uploads.sweep(self._settings)
        if bodies or messages or files:
            log.info("retention.erased", bodies=bodies, messages=messages, files=files)
        return bodies + messages + files
