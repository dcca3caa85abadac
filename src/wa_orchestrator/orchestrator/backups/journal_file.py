"""The file of the journal, beside the backups: who appends, how it is shortened, and what it says after a loss.

Two kinds of records. `w` is written ahead: before a worker may write a message to WhatsApp, the file on disk names it.
`m` follows the events: how a message ended, or that it returned to its queue, about a second later. So what has neither
was never written, and what has `w` alone may have arrived.
"""

import asyncio
import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from wa_orchestrator.domain.messages.restored_message import Note, Trace, trace_of
from wa_orchestrator.settings import Settings
from wa_orchestrator.store.events.event_stream import cursor_order

FILE: Final = "sent-messages.jsonl"
_LOCK: Final = f".{FILE}.lock"
#: A disk that answers later than this (a lost network directory) counts as one that cannot be written.
_PATIENCE_S: Final = 5.0


@dataclass(slots=True)
class Journal:
    """What happened to messages after a cursor."""

    begins: str = ""
    """From this event on it is complete; empty if there is no journal."""
    notes: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """The notes of each message with their instants, as they stand in the file."""
    opt_outs: set[str] = field(default_factory=set)

    def covers(self, cursor: str) -> bool:
        """Whether it has everything that happened after this event."""
        return bool(self.begins) and cursor_order(self.begins) <= cursor_order(cursor)

    def trace(self, message_id: str) -> tuple[Trace, int]:
        """Return what is known of a message, and the instant of the last note about it."""
        # What is noted ahead overtakes what follows the events. Of one millisecond, the note ahead came first.
        notes = sorted(self.notes.get(message_id, ()), key=lambda note: note[0])
        return trace_of(note for _, note in notes), notes[-1][0] if notes else 0


class JournalFile:
    """The journal in BACKUPS_DIR, and its copy where backups are copied to. Any number of processes may append."""

    def __init__(self, settings: Settings) -> None:
        self.path = settings.backups_dir / FILE
        copies = settings.backup_copy_dir
        self._copy = None if copies is None else copies / FILE
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []
        self._writer: asyncio.Task[None] | None = None

    async def note_write(self, message_id: str, at_ms: int) -> None:
        """Note that a worker is about to write a message. When it returns, this is on disk. Raises OSError.

        One sync for all that wait: hundreds of workers do not wait for hundreds of them.
        """
        noted = asyncio.get_running_loop().create_future()
        self._waiting.append((json.dumps({"w": message_id, "t": at_ms}), noted))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_waiting())
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await noted
        except TimeoutError as error:
            raise OSError("the journal cannot be written in time") from error

    async def _write_waiting(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            error: OSError | None = None
            try:
                await asyncio.to_thread(self.append, [line for line, _ in batch])
            except OSError as raised:
                error = raised
            for _, noted in batch:
                if noted.done():  # nobody waits for it any more
                    continue
                if error is None:
                    noted.set_result(None)
                else:
                    noted.set_exception(OSError(str(error)))

    def append(self, lines: Sequence[str]) -> None:
        """Append lines and sync them; the copy only as far as it can be reached. Raises OSError."""
        _append(self.path, lines)
        if self._copy is not None:  # this machine may be what is lost
            with contextlib.suppress(OSError):
                _append(self._copy, lines)

    def trim(self, after: str) -> None:
        """Leave out what the oldest backup that is kept already knows."""
        _trim(self.path, after)
        if self._copy is not None and self._copy.is_file():
            with contextlib.suppress(OSError):
                _trim(self._copy, after)


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Hold the lock of a journal: a line that is appended while another process shortens the file would be lost."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _append(path: Path, lines: Sequence[str]) -> None:
    with _locked(path.parent):
        text = "".join(f"{line}\n" for line in lines)
        _write(path, text if _ends_whole(path) else f"\n{text}", os.O_APPEND)


def _ends_whole(path: Path) -> bool:
    """Whether it ends with a whole line. A full disk or a power cut leaves a part, which must not swallow the next."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            return file.read(1) in (b"", b"\n")
    except FileNotFoundError:
        return True


def _write(path: Path, text: str, mode: int) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | mode, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _trim(path: Path, after: str) -> None:
    with _locked(path.parent):
        kept = [each for each in records(path) if _is_after(each, after) and "seen" not in each]
        lines = [*kept, {"seen": last_cursor(path)}]
        draft = path.with_name(f".unfinished-{path.name}")
        _write(draft, "".join(f"{json.dumps(each)}\n" for each in lines), os.O_TRUNC)
        draft.replace(path)


def _is_after(record: dict[str, Any], cursor: str) -> bool:
    """Whether a record tells of the time after an event. One of the same millisecond may."""
    if "t" in record:
        return int(record["t"]) >= cursor_order(cursor)[0]
    return "c" not in record or cursor_order(record["c"]) > cursor_order(cursor)


def last_cursor(path: Path) -> str:
    """Return the last event that a journal has; empty if there is none."""
    found = ""
    for record in records(path):
        found = record.get("c") or record.get("seen") or record.get("begins") or found
    return found


def read(path: Path, after: str) -> Journal:
    """Return what a journal says about the time after an event.

    It may begin anew later, as when a server ran on an empty Redis before the restore; what it knew stays true.
    """
    journal = Journal()
    for record in records(path):
        if begins := record.get("begins"):
            if not journal.begins or cursor_order(begins) <= cursor_order(after):
                journal.begins = begins
        elif not _is_after(record, after):
            continue
        elif "w" in record:
            journal.notes.setdefault(record["w"], []).append((int(record["t"]), Note.WRITTEN))
        elif opted_out := record.get("o"):
            journal.opt_outs.add(opted_out)
        elif "m" in record:
            journal.notes.setdefault(record["m"], []).append((cursor_order(record["c"])[0], record["s"]))
    return journal


def records(path: Path) -> Iterable[dict[str, Any]]:
    """Yield the records; a line that was being written at a crash is left out."""
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
