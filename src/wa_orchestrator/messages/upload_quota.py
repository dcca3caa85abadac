"""The room for uploads: what each API key may have stored, and what the disk must keep free."""

import asyncio
import contextlib
import json
import os
from collections import Counter
from collections.abc import AsyncIterator
from typing import Final

from wa_orchestrator.errors import Refused
from wa_orchestrator.messages import storage
from wa_orchestrator.messages.storage import Shelf
from wa_orchestrator.messages.storage.contract import StoredFile
from wa_orchestrator.settings import Settings

_MIB: Final = 1024 * 1024
INSUFFICIENT_STORAGE: Final = 507
#: Descriptions that are read at once, where a store is far away.
_AT_ONCE: Final = 16
#: Owner and size of described uploads by place and name, so that each description is read once. Gone ones are dropped.
_known: dict[tuple[str, str], tuple[str, int]] = {}
#: Bytes that are being written now, by place and owner.
_writing: Counter[tuple[str, str]] = Counter()


class UploadRoom:
    """The room of one upload that is being written."""

    def __init__(self, settings: Settings, owner: str, stored: int) -> None:
        self._directory = storage.directory(settings, Shelf.UPLOADS)
        self._mine = (_place(settings), owner)
        self._quota = settings.upload_quota_mb * _MIB
        self._reserve = settings.min_free_disk_mb * _MIB
        self._stored = stored
        self._taken = 0

    def take(self, size: int) -> None:
        """Take room for bytes that are about to be written; raises `Refused` with 507 where there is none."""
        if self._stored + _writing[self._mine] + size > self._quota:
            text = "The files of this API key use up its quota. Unused files are deleted after a day."
            raise Refused("UPLOAD_QUOTA", text, INSUFFICIENT_STORAGE, limit=self._quota)
        disk = os.statvfs(self._directory)
        if disk.f_bavail * disk.f_frsize - size < self._reserve:
            raise Refused("DISK_FULL", "The server's disk is nearly full. Tell its operator.", INSUFFICIENT_STORAGE)
        _writing[self._mine] += size
        self._taken += size

    def release(self) -> None:
        """Give back what was taken."""
        _writing[self._mine] -= self._taken
        if not _writing[self._mine]:
            del _writing[self._mine]


@contextlib.asynccontextmanager
async def reserved(settings: Settings, owner: str) -> AsyncIterator[UploadRoom]:
    """Give room for one upload; when the block ends, it is stored and described, or gone."""
    room = UploadRoom(settings, owner, await stored_bytes(settings, owner))
    try:
        yield room
    finally:
        room.release()


async def stored_bytes(settings: Settings, owner: str) -> int:
    """Return how many bytes an API key has stored."""
    place = _place(settings)
    stores = storage.stores(settings, Shelf.UPLOADS)
    files = [file for store in stores for file in await store.listed() if file.name.endswith(".json")]
    there = {(place, file.name) for file in files}
    for key in [key for key in _known if key[0] == place and key not in there]:
        del _known[key]
    limit = asyncio.Semaphore(_AT_ONCE)
    await asyncio.gather(*(_learn(place, file, limit) for file in files if (place, file.name) not in _known))
    return sum(size for (where, _), (key, size) in _known.items() if key == owner and where == place)


async def _learn(place: str, file: StoredFile, limit: asyncio.Semaphore) -> None:
    async with limit:
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            raw = json.loads(b"".join([chunk async for chunk in file.read()]))
            _known[place, file.name] = (str(raw.get("owner", "")), int(raw["size"]))


def _place(settings: Settings) -> str:
    return settings.media_s3_url or str(storage.directory(settings, Shelf.UPLOADS))
