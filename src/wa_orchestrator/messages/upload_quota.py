"""The room for uploads: what each API key may have stored, and what the disk must keep free."""

import contextlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from wa_orchestrator.errors import Refused
from wa_orchestrator.settings import Settings

_MIB: Final = 1024 * 1024
INSUFFICIENT_STORAGE: Final = 507
#: Owner and size of described uploads by path, so that each description is read once. Gone ones are dropped.
_known: dict[Path, tuple[str, int]] = {}
#: Bytes that are being written now, by directory and owner.
_writing: Counter[tuple[Path, str]] = Counter()


class UploadRoom:
    """The room of one upload that is being written."""

    def __init__(self, settings: Settings, directory: Path, owner: str) -> None:
        self._directory, self._owner = directory, owner
        self._quota = settings.upload_quota_mb * _MIB
        self._reserve = settings.min_free_disk_mb * _MIB
        self._stored = stored_bytes(directory, owner)
        self.taken = 0

    def take(self, size: int) -> None:
        """Take room for bytes that are about to be written; raises `Refused` with 507 where there is none."""
        mine = (self._directory, self._owner)
        if self._stored + _writing[mine] + size > self._quota:
            text = "The files of this API key take all the room that it has. Unused ones go after a day."
            raise Refused("UPLOAD_QUOTA", text, INSUFFICIENT_STORAGE, limit=self._quota)
        disk = os.statvfs(self._directory)
        if disk.f_bavail * disk.f_frsize - size < self._reserve:
            raise Refused("DISK_FULL", "The server's disk is nearly full. Tell its operator.", INSUFFICIENT_STORAGE)
        _writing[mine] += size
        self.taken += size


@contextlib.contextmanager
def reserved(settings: Settings, directory: Path, owner: str) -> Iterator[UploadRoom]:
    """Give room for one upload; when the block ends, it is stored and described, or gone."""
    room = UploadRoom(settings, directory, owner)
    try:
        yield room
    finally:
        _writing[directory, owner] -= room.taken
        if not _writing[directory, owner]:
            del _writing[directory, owner]


def stored_bytes(directory: Path, owner: str) -> int:
    """Return how many bytes an API key has stored."""
    there = set(directory.glob("*.json"))
    for path in [path for path in _known if path.parent == directory and path not in there]:
        del _known[path]
    for path in there - _known.keys():
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            raw = json.loads(path.read_text("utf-8"))
            _known[path] = (str(raw.get("owner", "")), int(raw["size"]))
    return sum(size for path, (key, size) in _known.items() if key == owner and path.parent == directory)
