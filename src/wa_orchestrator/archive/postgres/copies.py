"""Copies of the PostgreSQL archive, which are SQLite files as those of any other: a backup fits both."""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import psycopg

from wa_orchestrator.archive import sqlite_copies, sqlite_reads, sqlite_schema, sqlite_threads, sqlite_writes
from wa_orchestrator.archive.postgres import reads, schema, writes
from wa_orchestrator.archive.postgres.schema import Connection, mark, set_mark, transaction

_BATCH: Final = 500

#: Takes the rows of a copy after a place, at most so many; returns the last place, None at the end.
Take = Callable[[Connection, sqlite3.Connection, int], int | None]


def copy_to(url: str, target: Path) -> bool:
    """Write everything that is committed now into a new file, on disk when this returns; False without an archive."""
    with contextlib.closing(schema.open_reader(url)) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ  # one moment for all tables
        connection.execute("SET statement_timeout = 0")
        try:
            with connection.transaction():
                _copy(connection, target)
        except psycopg.errors.UndefinedTable:
            return False
    target.chmod(0o600)
    with target.open("rb") as file:
        os.fsync(file.fileno())
    return True


def _copy(connection: Connection, target: Path) -> None:
    marks = connection.execute("SELECT name, value FROM mark").fetchall()
    with contextlib.closing(sqlite_schema.open_writer(target)) as copy:
        sqlite_writes.prepare(copy)
        for rows in _batches(connection, f"SELECT place, {reads.MESSAGE.removeprefix('SELECT ')}"):
            with sqlite_writes.transaction(copy):
                for place, *columns in rows:
                    message = reads.message_copy(columns)
                    sqlite_writes.insert_message(copy, place, message, message.fields.get("body"))
        for rows in _batches(connection, reads.INCOMING):
            with sqlite_writes.transaction(copy):
                for row in rows:
                    sqlite_writes.insert_incoming(copy, row[0], reads.incoming_copy(row))
        for rows in _batches(connection, "SELECT place, fields FROM event ORDER BY place"):
            sqlite_writes.put_events(copy, [reads.entry(row) for row in rows])
        for name, value in marks:
            sqlite_schema.set_mark(copy, name, value)
        copy.execute("PRAGMA journal_mode = DELETE").fetchall()


def _batches(connection: Connection, query: str) -> Iterator[list[tuple[Any, ...]]]:
    with connection.cursor(name="wa_copy") as cursor:
        cursor.execute(query)
        while rows := cursor.fetchmany(_BATCH):
            yield rows


def take_rows(connection: Connection, source: Path, take: Take, after: int) -> int | None:
    with sqlite_copies.opened(source) as copy:
        return take(connection, copy, after)


def take_marks(connection: Connection, copy: sqlite3.Connection, _after: int) -> None:
    """Take over up to when texts were erased."""
    with transaction(connection):
        erased = max(int(mark(connection, "texts", "-1")), int(sqlite_schema.mark(copy, "texts", "-1")))
        set_mark(connection, "texts", str(erased))


def take_messages(connection: Connection, copy: sqlite3.Connection, after: int) -> int | None:
    """Take messages that are not here; one that is here is as new or newer."""
    rows = sqlite_copies.rows(copy, f"SELECT place, {sqlite_reads.MESSAGE.removeprefix('SELECT ')}", after)
    writes.add_messages(connection, [sqlite_reads.message_copy(row) for _, *row in rows])
    return sqlite_copies.last(rows)


def take_events(connection: Connection, copy: sqlite3.Connection, after: int) -> int | None:
    rows = sqlite_copies.rows(copy, "SELECT place, fields FROM event", after)
    with transaction(connection):
        writes.insert_events(connection, [sqlite_reads.entry(row) for row in rows])
    return sqlite_copies.last(rows)


def take_incoming(connection: Connection, copy: sqlite3.Connection, after: int) -> int | None:
    rows = sqlite_copies.rows(copy, "SELECT place, session, whatsapp_id, fields FROM incoming", after)
    writes.put_incoming(connection, [sqlite_threads.incoming_copy(row) for row in rows])
    return sqlite_copies.last(rows)


#: In batches, each a transaction: what else is to be written does not wait for all of them.
TAKES: Final[tuple[Take, ...]] = (take_marks, take_messages, take_events, take_incoming)
