"""The archive in a PostgreSQL database."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psycopg

from wa_orchestrator.archive.postgres import copies, reads, schema, writes
from wa_orchestrator.archive.postgres.schema import Connection
from wa_orchestrator.archive.threaded import ThreadedArchive

T = TypeVar("T")


class PostgresArchive(ThreadedArchive[Connection]):
    """An archive in a database, in which only `create` makes tables."""

    errors = (psycopg.Error, sqlite3.Error, OSError)

    def __init__(self, url: str) -> None:
        super().__init__(reads, reads, writes)
        self._url = url

    async def copy_to(self, target: Path) -> bool:
        # In a thread and a connection of its own: it may take minutes, and neither readers nor the writer wait for it.
        return await self._in_thread(None, lambda: copies.copy_to(self._url, target))

    async def take_from(self, source: Path) -> None:
        for take in copies.TAKES:
            after: int | None = -1
            while after is not None:
                after = await self._write(copies.take_rows, source, take, after)

    def _with_reader(self, empty: T, work: Callable[[Connection], T]) -> T:
        try:
            return self._run(schema.open_reader, work)
        except psycopg.errors.UndefinedTable:
            return empty

    def _with_writer(self, work: Callable[[Connection], T]) -> T:
        return self._run(schema.open_writer, work)

    def _run(self, open_it: Callable[[str], Connection], work: Callable[[Connection], T]) -> T:
        """Do work with the connection of this thread; once more, with a new one, if that has broken.

        A server that was restarted, or whose standby took over, breaks all of them. Repeating is harmless.
        """
        known: Connection | None = getattr(self._of_thread, "connection", None)
        if known is not None and not known.closed:
            try:
                return work(known)
            except psycopg.Error:
                if not known.closed:
                    raise
        self._forget(known)
        connection = self._of_thread.connection = open_it(self._url)
        self._opened.add(connection)
        return work(connection)

    def _forget(self, connection: Connection | None) -> None:
        if connection is not None:
            self._opened.discard(connection)
            connection.close()
