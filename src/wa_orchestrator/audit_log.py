"""The audit log: what people and keys did. A chained file in the data directory, and a stream in Redis for the pages.

The file is the record: nothing in the product shortens it, and an emptied Redis does not touch it. See
docs/decisions/0015-audit-file.md.
"""

import asyncio
import fcntl
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, Final

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.access import audit_chain
from wa_orchestrator.domain.access.audit_chain import BrokenChain, Checkpoint, Intact, Link
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.logs import redact
from wa_orchestrator.store.access import audit
from wa_orchestrator.timestamps import iso

FILE_NAME: Final = "audit.jsonl"
_BLOCK: Final = 64 * 1024
#: How long a page may trust the check of lines that it does not read again. 100,000 entries take a second.
_WHOLE_EVERY_MS: Final = 3_600_000
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Cut:
    """The file is a chain without a fault, but Redis has seen later lines: its end was cut off."""

    last: Link
    missing: int


async def record(context: Context, by: str, name: str, action: str, target: str, /, **details: object) -> None:
    """Append that `by` (a key or a person, called `name`) did `action` to `target`. Secrets in `details` are hidden.

    When it returns, the entry is on disk.
    """
    at_ms = await context.scripts.now_ms()
    shown = redact(details)
    entry = {"at": iso(at_ms), "by": by, "name": name, "action": action, "target": target, "details": shown}
    try:
        link = await asyncio.to_thread(_append, path_of(context), entry)
    except OSError as error:
        text = "The audit log cannot be written, so this may not be in it. Is the disk full?"
        raise Unavailable("AUDIT_UNAVAILABLE", text) from error
    await audit.add(context.scripts, audit.AuditRecord(link.number, link.hash, at_ms, by, name, action, target), shown)
    log.info("audit", by=by, action=action, target=target)


def path_of(context: Context) -> Path:
    return context.settings.data_dir / FILE_NAME


def lines(path: Path) -> Iterator[str]:
    """Yield the lines of a log, without their ends; none when there is no file."""
    try:
        with path.open(encoding="utf-8", newline="\n") as file:
            for line in file:
                yield line.removesuffix("\n")
    except FileNotFoundError:
        return


async def verify(context: Context) -> Intact | BrokenChain | Cut:
    """Check every line of the file, and that its end is at least what Redis has seen of it."""
    context.audit_checked = None
    return await verify_new(context)


async def verify_new(context: Context) -> Intact | BrokenChain | Cut:
    """Check the lines that this process has not checked yet, and every line once an hour."""
    now_ms, known = await context.scripts.now_ms(), context.audit_checked
    if known is not None and now_ms - known.whole_at_ms > _WHOLE_EVERY_MS:
        known = None
    found, context.audit_checked = await asyncio.to_thread(_verify_from, path_of(context), known, now_ms)
    seen = await audit.last_number(context.scripts)
    if isinstance(found, Intact) and found.last.number < seen:
        return Cut(found.last, seen - found.last.number)
    return found


def _verify_from(path: Path, known: Checkpoint | None, now_ms: int) -> tuple[Intact | BrokenChain, Checkpoint | None]:
    """Check a file from a checkpoint on, or from its beginning if it is not the same file or is shorter now."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return Intact(Link()), None
    with file:
        status = os.fstat(file.fileno())
        same = (status.st_dev, status.st_ino)
        if known is None or known.file != same or known.offset > status.st_size:
            known = Checkpoint(same, 0, Link(), now_ms)
        file.seek(known.offset)
        found = audit_chain.verify(_whole_lines(file), known.last)
        if isinstance(found, BrokenChain):
            return found, known
        return found, replace(known, offset=file.tell(), last=found.last)


def _whole_lines(file: BinaryIO) -> Iterator[str]:
    """Yield lines. One without its end is being written, or a crash tore it and the next writer removes it."""
    while (line := file.readline()).endswith(b"\n"):
        yield line.decode(errors="replace").removesuffix("\n")
    file.seek(-len(line), os.SEEK_CUR)


def _append(path: Path, entry: Mapping[str, Any]) -> Link:
    """Append an entry. Processes take turns by a lock on the file: the chain has one end."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        line, link = audit_chain.line_of(_end_of(handle), entry)
        rest = memoryview(f"{line}\n".encode())
        while rest:
            rest = rest[os.write(handle, rest) :]
        os.fsync(handle)
    finally:
        os.close(handle)
    return link


def _end_of(handle: int) -> Link:
    """Return the last link. A line without its end was torn by a crash, before its caller got an answer: remove it."""
    size = os.fstat(handle).st_size
    tail, begins = b"", size
    while begins and tail.count(b"\n") < 2:
        start = max(0, begins - _BLOCK)
        tail, begins = os.pread(handle, begins - start, start) + tail, start
    whole = tail[: tail.rfind(b"\n") + 1]
    if len(whole) < len(tail):
        log.warning("audit.torn_line_removed", bytes=len(tail) - len(whole))
        os.ftruncate(handle, size - (len(tail) - len(whole)))
    last = whole.decode(errors="replace").splitlines()[-1:]
    # A damaged end is not hidden: the next entry does not follow it, and `verify` says so.
    return (audit_chain.link_of(last[0]) if last else None) or Link()
