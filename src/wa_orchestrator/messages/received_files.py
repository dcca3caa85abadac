"""Files of incoming messages: each by the message's id, kept for a while; the oldest go when room is short.

The small picture that came with a message has the suffix `.jpg`.

A file that is being received has the suffix `.part` and the name of the command that asked for it. It is in the store
before the command is answered, because the process that waits for it may be on another machine.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Final

import structlog

from wa_orchestrator.errors import OrchestratorError, Refused
from wa_orchestrator.messages import storage
from wa_orchestrator.messages.storage import Shelf
from wa_orchestrator.messages.storage.contract import StoredFile
from wa_orchestrator.settings import Settings

_MIB: Final = 1024 * 1024
_DAY_S: Final = 24 * 3600
_PART: Final = ".part"
_THUMBNAIL: Final = ".jpg"
#: How long one that nobody finished is left alone: no transfer takes that long.
_UNFINISHED_S: Final = 3600
_INSUFFICIENT_STORAGE: Final = 507
#: How long a message waits for its small picture to be stored: it must not be late because a bucket is away.
_THUMBNAIL_S: Final = 2.0

log = structlog.get_logger(__name__)


async def save(settings: Settings, name: str, chunks: AsyncIterator[bytes]) -> int:
    """Store a file that a worker sends; return its size. Raises `Refused`, and leaves nothing, if there is no room."""
    return await _put(settings, f"{name}{_PART}", f"{name}{_PART}", chunks)


async def keep_thumbnail(settings: Settings, message_id: str, jpeg: bytes) -> bool:
    """Store the small picture of a message, unless it has one; return whether it is there.

    Nothing is raised where it cannot be stored: the message counts.
    """
    name = f"{message_id}{_THUMBNAIL}"
    try:
        async with asyncio.timeout(_THUMBNAIL_S):
            if await storage.stores(settings, Shelf.RECEIVED)[0].find(name) is None:
                await _put(settings, f"{name}{_PART}", name, _chunk(jpeg))
    except (OSError, OrchestratorError) as error:  # a timeout is an OSError, too
        log.warning("thumbnail.not_kept", error=str(error) or type(error).__name__)
        return False
    return True


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
    return await _find(settings, message_id)


async def find_thumbnail(settings: Settings, message_id: str) -> StoredFile | None:
    """Return the small picture that came with a message, if it is here and not too old."""
    return await _find(settings, f"{message_id}{_THUMBNAIL}")


async def _find(settings: Settings, name: str) -> StoredFile | None:
    for store in storage.stores(settings, Shelf.RECEIVED):
        found = await store.find(name)
        if found and found.at > time.time() - settings.media_retention_days * _DAY_S:
            return found
    return None


async def names(settings: Settings) -> list[str]:
    """Return the ids of the messages whose files or small pictures are here."""
    kept = {_message_of(file) for file in await _files(settings) if not file.name.endswith(_PART)}
    return sorted(kept)


async def sweep(settings: Settings, erased: Collection[str]) -> int:
    """Remove files that are too old, unfinished, of erased messages, or beyond the quota; return how many."""
    now, removed = time.time(), 0
    for file in await _files(settings):
        kept_s = _UNFINISHED_S if file.name.endswith(_PART) else settings.media_retention_days * _DAY_S
        if _message_of(file) in erased or file.at <= now - kept_s:
            await file.store.remove(file.name)
            removed += 1
    for store in storage.stores(settings, Shelf.RECEIVED):
        await store.tidy()
    return removed + await _make_room(settings)


def _message_of(file: StoredFile) -> str:
    return file.name.removesuffix(_THUMBNAIL)


async def _files(settings: Settings) -> list[StoredFile]:
    return [file for store in storage.stores(settings, Shelf.RECEIVED) for file in await store.listed()]


async def _make_room(settings: Settings, newest: str = "") -> int:
    """Remove the oldest files beyond the quota, except the newest; return how many."""
    found = [file for file in await _files(settings) if not file.name.endswith(_PART)]
    excess, removed = sum(file.size for file in found) - settings.media_quota_mb * _MIB, 0
    for file in sorted(found, key=lambda each: each.at):
        if excess <= 0:
            break
        if file.name != newest:
            await file.store.remove(file.name)
            excess, removed = excess - file.size, removed + 1
    return removed


async def _put(settings: Settings, unfinished: str, name: str, chunks: AsyncIterator[bytes]) -> int:
    """Write a file under a name of its own, and put it into the store; return its size. A failure leaves nothing."""
    path = storage.directory(settings, Shelf.RECEIVED) / unfinished
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        size = await _write(settings, path, chunks)
        await storage.stores(settings, Shelf.RECEIVED)[0].put(path, name)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return size


async def _chunk(data: bytes) -> AsyncIterator[bytes]:
    yield data


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
