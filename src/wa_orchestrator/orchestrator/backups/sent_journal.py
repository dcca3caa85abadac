"""Follows the events into the journal: what became of messages, and who opted out. The leader alone does.

Redis itself may be what is lost; the journal is beside the backups. What is about to be written to WhatsApp is noted
before it is (`JournalFile.note_write`); this adds, about once a second, how it ended.
"""

import asyncio
import json
from typing import Final

from wa_orchestrator.context import Context
from wa_orchestrator.domain.messages.restored_message import note_of_return
from wa_orchestrator.domain.stream_events import EventType
from wa_orchestrator.orchestrator.backups import journal_file
from wa_orchestrator.orchestrator.backups.journal_file import JournalFile
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.events.event_stream import cursor_order
from wa_orchestrator.store.records import Entry

_EVERY_S: Final = 1.0
_MOST: Final = 2000
_NOTED: Final = frozenset(
    {
        EventType.MESSAGE_QUEUED, EventType.MESSAGE_SENT, EventType.MESSAGE_DELIVERED, EventType.MESSAGE_READ,
        EventType.MESSAGE_FAILED, EventType.MESSAGE_UNKNOWN, EventType.MESSAGE_EXPIRED, EventType.MESSAGE_CANCELLED,
        EventType.CONTACT_OPTED_OUT,
    }
)  # fmt: skip


class SentJournal:
    """Appends to the journal. Only the leader may use it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._file = JournalFile(context.settings)
        self._cursor = ""
        self._trim_after = ""

    async def step(self) -> float:
        """Note what happened since the last time."""
        scripts = self._context.scripts
        if not self._cursor:
            self._cursor = await asyncio.to_thread(journal_file.last_cursor, self._file.path)
        if not self._cursor or not await self._reaches_back():
            # A new journal, or one with a gap: it begins here, and says so.
            self._cursor = await event_stream.last_cursor(scripts)
            await asyncio.to_thread(self._file.append, [json.dumps({"begins": self._cursor})])
        if self._trim_after:
            await asyncio.to_thread(self._file.trim, self._trim_after)
            self._trim_after = ""
        entries = await event_stream.read(scripts, after=self._cursor, most=_MOST)
        if not entries:
            return _EVERY_S
        lines = [_line(entry) for entry in entries if _is_noted(entry)]
        await asyncio.to_thread(self._file.append, lines or [json.dumps({"seen": entries[-1].cursor})])
        self._cursor = entries[-1].cursor
        return 0 if len(entries) == _MOST else _EVERY_S

    async def _reaches_back(self) -> bool:
        """Whether the stream still has, or ends at, the event after which the journal goes on."""
        oldest = await event_stream.read(self._context.scripts, most=1)
        newest = await event_stream.last_cursor(self._context.scripts)
        if not oldest:
            return self._cursor == "0"
        inside = cursor_order(oldest[0].cursor) <= cursor_order(self._cursor) <= cursor_order(newest)
        return inside or self._cursor == "0"

    def forget_before(self, cursor: str) -> None:
        """Leave out, at the next step, what happened up to this event: every backup that is kept knows it."""
        self._trim_after = cursor

    def standby(self) -> None:
        """Forget the position: another leader may have written meanwhile."""
        self._cursor = ""


def _is_noted(entry: Entry) -> bool:
    """Whether an event matters after a loss. That a message was accepted does not: only that it returned."""
    kind = entry.fields.get("type")
    return kind in _NOTED and not (kind == EventType.MESSAGE_QUEUED and not entry.fields.get("note"))


def _line(entry: Entry) -> str:
    if entry.fields["type"] == EventType.CONTACT_OPTED_OUT:
        return json.dumps({"c": entry.cursor, "o": entry.fields.get("contact_phone", "")})
    status = entry.fields["type"].partition(".")[2]
    if entry.fields["type"] == EventType.MESSAGE_QUEUED:
        status = note_of_return(entry.fields["note"])
    return json.dumps({"c": entry.cursor, "m": entry.fields.get("message", ""), "s": status})
