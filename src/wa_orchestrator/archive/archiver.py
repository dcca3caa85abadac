"""Moves history from Redis to the archive, and erases what is older than its retention. The leader runs it.

A message is copied, the copy is committed to disk, and only then removed from Redis, if it did not change meanwhile.
Whenever the process dies, it is in one place or in both; a search shows it once, and the next step goes on.
"""

from typing import Final

import structlog

from wa_orchestrator.archive import erasure, relocation
from wa_orchestrator.archive.contract import Archive
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.settings import Settings
from wa_orchestrator.store.conversations import conversation_records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import event_stream, webhooks
from wa_orchestrator.store.history import archive_marks, ended_messages
from wa_orchestrator.store.messages import incoming_messages

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
#: Messages per step: about 20 ms of Redis' time and one commit.
BATCH: Final = 200
EVENTS: Final = 1_000
#: A pause after every full step, so that archiving takes a fraction of a core however much there is to do.
_BUSY_S: Final = 0.1
_IDLE_S: Final = 5.0
_ELSEWHERE_S: Final = 60.0

log = structlog.get_logger(__name__)


class Archiver:
    """One step moves and erases one batch of each kind. Repeating a step is harmless."""

    def __init__(self, settings: Settings, scripts: Scripts, archive: Archive) -> None:
        self._settings = settings
        self._scripts = scripts
        self._archive = archive
        self._is_ours = False
        self._works = False
        """A step of this process has succeeded, and none has failed since."""

    async def step(self) -> float:
        """Move and erase one batch. Return the seconds until the next one. Lasting failure emits an event."""
        try:
            wait_s = await self._step()
        except Unavailable as error:
            self._works = False
            await archive_marks.set_failing(self._scripts, error.code)
            raise
        if self._is_ours and not self._works:
            await archive_marks.set_working(self._scripts)
            self._works = True
        return wait_s

    async def _step(self) -> float:
        if not await self._check_identity():
            await archive_marks.set_failing(self._scripts, "ARCHIVE_ELSEWHERE")
            return _ELSEWHERE_S
        now_ms = await self._scripts.now_ms()
        await erasure.step(self._scripts, self._archive)
        moved = await self.move(now_ms)
        erased = await self.erase(now_ms)
        await self._shrink_daily(now_ms)
        return _BUSY_S if max(moved, erased) >= BATCH else _IDLE_S

    async def move(self, now_ms: int) -> int:
        """Move one batch of each kind; return the size of the largest, as a part of what a step can do."""
        until_ms = now_ms - self._settings.archive_after_hours * HOUR_MS
        messages = await self._move_messages(until_ms)
        incoming = await self._move_incoming(until_ms)
        events = await self._copy_events()
        return max(messages, incoming, events * BATCH // EVENTS)

    async def _move_messages(self, until_ms: int) -> int:
        copies = await ended_messages.copies(self._scripts, until_ms, most=BATCH)
        if copies:
            await self._archive.put_messages([each for each in copies if each.fields])
            removed = await ended_messages.remove(self._scripts, copies)
            log.info("archive.moved", messages=removed, changed=len(copies) - removed)
        return len(copies)

    async def _move_incoming(self, until_ms: int) -> int:
        copies = await incoming_messages.copies(self._scripts, until_ms, most=BATCH)
        if copies:
            await self._archive.put_incoming([each for each in copies if each.fields])
            await incoming_messages.remove(self._scripts, copies)
        return len(copies)

    async def _copy_events(self) -> int:
        """Copy new events at once: the stream in Redis may be trimmed as soon as they are in the archive."""
        entries = await event_stream.read(self._scripts, after=await self._archive.last_event(), most=EVENTS)
        if entries:
            await self._archive.put_events(entries)
            await event_stream.trim(self._scripts, entries[-1].cursor)
        return len(entries)

    async def erase(self, now_ms: int) -> int:
        """Erase one batch of what is not kept any longer; return how much."""
        settings, archive = self._settings, self._archive
        texts = await archive.erase_texts(now_ms - settings.body_retention_days * DAY_MS, most=BATCH)
        messages = await archive.erase_messages(now_ms - settings.message_retention_days * DAY_MS, most=BATCH)
        events = await archive.erase_events(now_ms - settings.event_retention_days * DAY_MS, most=EVENTS)
        until_ms = now_ms - settings.message_retention_days * DAY_MS
        conversations = await conversation_records.remove_older(self._scripts, until_ms, most=BATCH)
        await webhooks.erase_deliveries_until(self._scripts, now_ms - settings.body_retention_days * DAY_MS)
        if texts or messages:
            log.info("archive.erased", texts=texts, messages=messages, events=events)
        return max(texts, messages, conversations, events * BATCH // EVENTS)

    async def _shrink_daily(self, now_ms: int) -> None:
        """Once a day, let what was erased leave the disk: the AOF of Redis and the log of the archive."""
        rewritten_at = await archive_marks.rewritten_at(self._scripts)
        if not 0 <= now_ms - rewritten_at < DAY_MS:
            await archive_marks.rewrite(self._scripts)
            await self._archive.shrink()

    async def _check_identity(self) -> bool:
        """Whether this is the archive in use. History must not be split over the disks of two machines."""
        if not self._is_ours:
            identity, file = await self._archive.create(), self._settings.archive_path
            self._is_ours = await archive_marks.claim(self._scripts, identity) or await relocation.take_over(
                self._scripts, file, self._archive, identity
            )
            if not self._is_ours:
                log.error("archive.elsewhere", hint="another archive is in use: see docs/history.md")
        return self._is_ours
