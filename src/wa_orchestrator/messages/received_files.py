"""Files of incoming messages: each by the message's id, kept for a while; the oldest go when room is short.

A file that is being received has the suffix `.part` and the name of the command that asked for it. It is in the store
before the command is answered, because whoever waits for it may be another process, on another machine.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Final

from wa_orchestrator.errors import Refused
from wa_orchestrator.messages import storage
from wa_orchestrator.messages.storage import Shelf
from wa_orchestrator.messages.storage.contract import StoredFile
from wa_orchestrator.settings import Settings

_MIB: Final = 1024 * 1024
_DAY_S: Final = 24 * 3600
_PART: Final = ".part"
#: How long one that nobody finished is left alone: no transfer takes that long.
_UNFINISHED_S: Final = 3600
_INSUFFICIENT_STORAGE: Final = 507


async def save(settings: Settings, name: str, chunks: AsyncIterator[bytes]) -> int:
    """Store a file that a worker sends; return its size. Raises `Refused`, and leaves nothing, if there is no room."""
    path = storage.directory(settings, Shelf.RECEIVED) / f"{name}{_PART}"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        size = await _write(settings, path, chunks)
        await storage.stores(settings, Shelf.RECEIVED)[0].put(path, path.name)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return size


async def keep(settings: Settings, name: str, message_id: str) -> StoredFile:
    """Give a received file the name of its message, and remove the oldest files that it leaves no room for."""
    store = storage.stores(settings, Shelf.RECEIVED)[0]
    await store.rename(f"{name}{_PART}", message_id)
    await _make_room(settings, message_id)
    found = await store.find(message_id)
    if found is None:
        raise FileNotFoundError(message_id)
    return found


async def discard(settings: Settings, name: str) -> None:
    """Remove a received file that nobody waits for."""
    await storage.stores(settings, Shelf.RECEIVED)[0].remove(f"{name}{_PART}")


async def find(settings: Settings, message_id: str) -> StoredFile | None:
    """Return the file of a message, if it is here and not too old."""
    for store in storage.stores(settings, Shelf.RECEIVED):
        found = await store.find(message_id)
        if found and found.at > time.time() - settings.media_retention_days * _DAY_S:
            return found
    return None


async def names(settings: Settings) -> list[str]:
    """Return the ids of the messages whose files are here."""
    return [file.name for file in await _files(settings) if not file.name.endswith(_PART)]


async def sweep(settings: Settings, erased: Collection[str]) -> int:
    """Remove files that are too old, unfinished, or of erased messages; return how many."""
    now, removed = time.time(), 0
    for file in await _files(settings):
        kept_s = _UNFINISHED_S if file.name.endswith(_PART) else settings.media_retention_days * _DAY_S
        if file.name in erased or file.at <= now - kept_s:
            await file.store.remove(file.name)
            removed += 1
    for store in storage.stores(settings, Shelf.RECEIVED):
        await store.tidy()
    return removed


async def _files(settings: Settings) -> list[StoredFile]:
    return [file for store in storage.stores(settings, Shelf.RECEIVED) for file in await store.listed()]


async def _make_room(settings: Settings, newest: str) -> None:
    """Remove the oldest files beyond the quota, except the newest."""
    found = [file for file in await _files(settings) if not file.name.endswith(_PART)]
    excess = sum(file.size for file in found) - settings.media_quota_mb * _MIB
    for file in sorted(found, key=lambda each: each.at):
        if excess <= 0:
            return
        if file.name != newest:
            await file.store.remove(file.name)
            excess -= file.size


async def _write(settings: Settings, path: Path, chunks: AsyncIterator[bytes]) -> int:
    size, handle = 0, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        async for chunk in chunks:
            size += len(chunk)
            if size > settings.media_max_mb * _MIB:
                raise Refused("MEDIA_TOO_LARGE", "The file is longer than MEDIA_MAX_MB.", 413)
            await asyncio.to_thread(_write_chunk, settings, handle, chunk)
        await asyncio.to_thread(os.fsync, handle)
    finally:
        os.close(handle)
    return size


def _write_chunk(settings: Settings, handle: int, chunk: bytes) -> None:
    disk = os.fstatvfs(handle)
    if disk.f_bavail * disk.f_frsize - len(chunk) < settings.min_free_disk_mb * _MIB:
        raise Refused("DISK_FULL", "The server's disk is nearly full. Tell its operator.", _INSUFFICIENT_STORAGE)
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(handle, rest) :]
