"""The archive in one SQLite file."""

import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from wa_orchestrator.archive import sqlite_copies as copies
from wa_orchestrator.archive import sqlite_reads as reads
from wa_orchestrator.archive import sqlite_threads as threads
from wa_orchestrator.archive import sqlite_writes as writes
from wa_orchestrator.archive.sqlite_schema import open_reader, open_writer
from wa_orchestrator.archive.threaded import ThreadedArchive

T = TypeVar("T")
Opened = TypeVar("Opened", sqlite3.Connection, sqlite3.Connection | None)


class SqliteArchive(ThreadedArchive[sqlite3.Connection]):
    """An archive in a file, which only `create` makes."""

    def __init__(self, path: Path) -> None:
        super().__init__(reads, threads, writes)
        self.path = path

    async def create(self) -> str:
        await self._write(writes.prepare)
        return await super().create()

    async def copy_to(self, target: Path) -> bool:
        # In a thread of its own: it may take a minute, and neither readers nor the writer wait for it.
        return await self._in_thread(None, lambda: copies.copy_to(self.path, target))

    async def take_from(self, source: Path) -> None:
        await self._write(_with_copy(source, copies.take_marks))
        for take in copies.TAKES:
            after: int | None = -1
            while after is not None:
                after = await self._write(_with_copy(source, partial(_taken, take, after)))

    def _with_reader(self, empty: T, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._connection(open_reader)
        return empty if connection is None else work(connection)

    def _with_writer(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return work(self._connection(open_writer))

    def _connection(self, open_it: Callable[[Path], Opened]) -> Opened:
        """Return the connection of this thread."""
        connection: Opened | None = getattr(self._of_thread, "connection", None)
        if connection is None:
            connection = open_it(self.path)
            if connection is not None:
                self._of_thread.connection = connection
                self._opened.add(connection)
        return connection


def _taken(take: copies.Take, after: int, connection: sqlite3.Connection, copy: sqlite3.Connection) -> int | None:
    return take(connection, copy, after)


def _with_copy(
    source: Path, function: Callable[[sqlite3.Connection, sqlite3.Connection], T]
) -> Callable[[sqlite3.Connection], T]:
    """Return a function of the archive's connection that has a copy open too."""

    def work(connection: sqlite3.Connection) -> T:
        with copies.opened(source) as copy:
            return function(connection, copy)

    return work
