"""Journal of messages that left since the last backup, beside the backups: a restore into an empty Redis knows from it
what must not be sent again.

Redis itself may be what was lost. So every message that a worker claimed or that ended is noted in a file, about once a
second. What was claimed in the last moment before a loss is not in it; it is sent again under the same WhatsApp id, and
WhatsApp shows a message of one id once.
"""

import asyncio
import contextlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from wa_orchestrator.context import Context
from wa_orchestrator.domain.stream_events import EventType
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.events.event_stream import cursor_order
from wa_orchestrator.store.records import Entry

FILE: Final = "sent-messages.jsonl"
_EVERY_S: Final = 1.0
_MOST: Final = 2000
_NOTED: Final = frozenset(
    {
        EventType.MESSAGE_SENDING, EventType.MESSAGE_SENT, EventType.MESSAGE_DELIVERED, EventType.MESSAGE_READ,
        EventType.MESSAGE_FAILED, EventType.MESSAGE_UNKNOWN, EventType.MESSAGE_EXPIRED, EventType.MESSAGE_CANCELLED,
        EventType.CONTACT_OPTED_OUT,
    }
)  # fmt: skip


@dataclass(slots=True)
class Journal:
    """What happened to messages after a cursor: the last status of each, and when."""

    begins: str = ""
    """From this event on it is complete; empty if there is no journal."""
    statuses: dict[str, tuple[str, int]] = field(default_factory=dict)
    opt_outs: set[str] = field(default_factory=set)

    def covers(self, cursor: str) -> bool:
        """Whether it has everything that happened after this event."""
        return bool(self.begins) and cursor_order(self.begins) <= cursor_order(cursor)


class SentJournal:
    """Appends to the journal. Only the leader may use it."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._cursor = ""
        self._trim_after = ""

    @property
    def _path(self) -> Path:
        return self._context.settings.backups_dir / FILE

    async def step(self) -> float:
        """Note what happened since the last time."""
        scripts = self._context.scripts
        if not self._cursor:
            self._cursor = await asyncio.to_thread(last_cursor, self._path)
        if not self._cursor or not await self._reaches_back():
            # A new journal, or one with a gap: it begins here, and says so.
            self._cursor = await event_stream.last_cursor(scripts)
            await asyncio.to_thread(self._append, [json.dumps({"begins": self._cursor})])
        if self._trim_after:
            await asyncio.to_thread(self._trim, self._trim_after)
            self._trim_after = ""
        entries = await event_stream.read(scripts, after=self._cursor, most=_MOST)
        if not entries:
            return _EVERY_S
        lines = [_line(entry) for entry in entries if entry.fields.get("type") in _NOTED]
        await asyncio.to_thread(self._append, lines or [json.dumps({"seen": entries[-1].cursor})])
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

    def _trim(self, after: str) -> None:
        trim(self._path, after)
        copies = self._context.settings.backup_copy_dir
        if copies is not None and (copies / FILE).is_file():
            with contextlib.suppress(OSError):
                trim(copies / FILE, after)

    def standby(self) -> None:
        """Forget the position: another leader may have written meanwhile."""
        self._cursor = ""

    def _append(self, lines: Sequence[str]) -> None:
        _append(self._path, lines)
        copies = self._context.settings.backup_copy_dir
        if copies is not None:  # where backups are copied to, because this machine may be lost
            with contextlib.suppress(OSError):
                _append(copies / FILE, lines)


def _append(path: Path, lines: Sequence[str]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in lines))
        file.flush()
        os.fsync(file.fileno())


def _line(entry: Entry) -> str:
    if entry.fields["type"] == EventType.CONTACT_OPTED_OUT:
        return json.dumps({"c": entry.cursor, "o": entry.fields.get("contact_phone", "")})
    status = entry.fields["type"].partition(".")[2]
    return json.dumps({"c": entry.cursor, "m": entry.fields.get("message", ""), "s": status})


def last_cursor(path: Path) -> str:
    """Return the last event that a journal has; empty if there is none."""
    found = ""
    for record in _records(path):
        found = record.get("c") or record.get("seen") or record.get("begins") or found
    return found


def read(path: Path, after: str) -> Journal:
    """Return what a journal says about the time after an event.

    It may begin anew later, as when a server ran on an empty Redis before the restore; what it knew stays true.
    """
    journal = Journal()
    for record in _records(path):
        if (begins := record.get("begins")) and (not journal.begins or cursor_order(begins) <= cursor_order(after)):
            journal.begins = begins
        elif (cursor := record.get("c")) and cursor_order(cursor) > cursor_order(after):
            if opted_out := record.get("o"):
                journal.opt_outs.add(opted_out)
            elif "m" in record:
                journal.statuses[record["m"]] = (record["s"], cursor_order(cursor)[0])
    return journal


def trim(path: Path, after: str) -> None:
    """Leave out what the oldest backup that is kept already knows."""
    kept = [each for each in _records(path) if "c" not in each or cursor_order(each["c"]) > cursor_order(after)]
    lines = [*(each for each in kept if "seen" not in each), {"seen": last_cursor(path)}]
    draft = path.with_name(f".unfinished-{path.name}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write("".join(f"{json.dumps(each)}\n" for each in lines))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _records(path: Path) -> Iterable[dict[str, str]]:
    """Yield the records; a line that was being written at a crash ends the file and is left out."""
    if not path.is_file():
        return
    with path.open(encoding="utf-8") as file:
        for text in file:
            try:
                record = json.loads(text)
            except ValueError:
                continue
            if isinstance(record, dict):
                yield record
