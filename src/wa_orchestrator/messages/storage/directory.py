"""Files in a directory; the mtime of a file is its time."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from wa_orchestrator.messages.storage.contract import StoredFile

_CHUNK: Final = 256 * 1024


class DirectoryStore:
    """A directory of this machine, or one that several machines share. Its short calls do not leave the event loop."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def put(self, source: Path, name: str, *, at: float | None = None) -> None:
        """See the contract. `source` is in the same file system."""
        if at is not None:
            known = self._described(self._directory / name)
            at = max(at, known.at) if known else at
            os.utime(source, (at, at))
        os.replace(source, self._directory / name)  # noqa: PTH105 (as short as the calls beside it)

    async def touch(self, name: str, at: float) -> None:
        """See the contract."""
        path = self._directory / name
        at = max(at, path.stat().st_mtime)
        os.utime(path, (at, at))

    async def rename(self, name: str, new: str) -> None:
        """See the contract."""
        path = self._directory / name
        os.utime(path)
        path.replace(self._directory / new)

    async def remove(self, name: str) -> None:
        """See the contract."""
        (self._directory / name).unlink(missing_ok=True)

    async def find(self, name: str) -> StoredFile | None:
        """See the contract."""
        return self._described(self._directory / name)

    async def listed(self) -> list[StoredFile]:
        """See the contract."""
        return await asyncio.to_thread(self._listed)

    async def read(self, name: str, start: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """See the contract."""
        left = length
        with (self._directory / name).open("rb") as file:
            file.seek(start)
            while left is None or left > 0:
                chunk = await asyncio.to_thread(file.read, _CHUNK if left is None else min(left, _CHUNK))
                if not chunk:
                    return
                left = None if left is None else left - len(chunk)
                yield chunk

    @asynccontextmanager
    async def on_disk(self, name: str) -> AsyncIterator[Path]:
        """See the contract."""
        yield self._directory / name

    async def tidy(self) -> None:
        """See the contract: a directory shows all that it has."""

    def _listed(self) -> list[StoredFile]:
        try:
            paths = list(self._directory.iterdir())
        except FileNotFoundError:
            return []
        return [found for path in paths if (found := self._described(path))]

    def _described(self, path: Path) -> StoredFile | None:
        try:
            told = path.stat()
        except FileNotFoundError:
            return None
        return StoredFile(self, path.name, told.st_size, told.st_mtime)
