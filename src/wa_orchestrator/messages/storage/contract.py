"""What a store of files does. `tests/messages/test_storage.py` runs over every store."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file in a store."""

    store: "FileStore"
    name: str
    size: int
    at: float
    """When it was stored, in seconds; or the time that it was given."""

    def read(self, start: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """Return the bytes from `start` on, in chunks."""
        return self.store.read(self.name, start, length)


class FileStore(Protocol):
    """Files by name, each whole or not there at all. A store that does not answer raises `Unavailable`."""

    async def put(self, source: Path, name: str, *, at: float | None = None) -> None:
        """Move a file of this machine into the store, with the time `at` (default: now) unless it has a later one.

        When this returns, the file is there and `source` is gone; when it raises, `source` is still there.
        """

    async def touch(self, name: str, at: float) -> None:
        """Give a file a later time. Concurrent calls never leave it an earlier one."""

    async def rename(self, name: str, new: str) -> None:
        """Give a file another name and the present time. Raises `FileNotFoundError` where there is none."""

    async def remove(self, name: str) -> None:
        """Remove a file. When this returns, there is none of that name."""

    async def find(self, name: str) -> StoredFile | None:
        """Return a file, or None."""

    async def listed(self) -> list[StoredFile]:
        """Return all files."""

    def read(self, name: str, start: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """Return the bytes of a file in chunks. Raises `FileNotFoundError` where there is none."""

    def on_disk(self, name: str) -> AbstractAsyncContextManager[Path]:
        """Give a path to a file that is valid within the block, to read only."""

    async def tidy(self) -> None:
        """Remove what calls that never ended have left and `listed` does not show."""
