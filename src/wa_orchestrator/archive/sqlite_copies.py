"""Copies of the SQLite archive for backups: written while it is in use, checked, and taken back row by row.

A copy is taken back into an archive that exists, not put in its place: other processes have that one open, and Redis
remembers its identity.
"""

import contextlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from wa_orchestrator.archive import sqlite_threads
from wa_orchestrator.archive.places import SPREAD, instant_of
from wa_orchestrator.archive.sqlite_reads import MESSAGE, message_copy
from wa_orchestrator.archive.sqlite_schema import mark, open_reader, set_mark
from wa_orchestrator.archive.sqlite_writes import free_place, insert_message, transaction
from wa_orchestrator.store.messages.incoming_messages import IncomingCopy

#: The columns of every table that a copy must have.
_TABLES: Final = {
    "mark": {"name", "value"},
    "message": {
        "place", "id", "session", "recipient", "status", "reference", "batch", "ended_at", "record", "body", "timeline",
    },
    "message_text": {"words"},
    "event": {"place", "message", "contact", "fields"},
    "incoming": {"place", "session", "whatsapp_id", "contact", "fields"},
}  # fmt: skip
_BATCH: Final = 500

#: Takes the rows of a copy after a place, at most so many; returns the last place, None at the end.
Take = Callable[[sqlite3.Connection, sqlite3.Connection, int], int | None]


def copy_to(path: Path, target: Path) -> bool:
    """Write everything that is committed now into a new file, on disk when this returns; False without an archive."""
    connection = open_reader(path)
    if connection is None:
        return False
    with contextlib.closing(connection):
        connection.execute("PRAGMA query_only = OFF")
        # Not page by page: free pages are zeros, and an archive of a backup that is mostly zeros looks like a bomb.
        connection.execute("VACUUM INTO ?", (str(target),))
    with contextlib.closing(sqlite3.connect(target)) as copy:
        copy.execute("PRAGMA journal_mode = DELETE")
    target.chmod(0o600)
    with target.open("rb") as file:
        os.fsync(file.fileno())
    return True


@contextlib.contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a copy, which nobody writes. Its schema is not trusted: it may have been brought here."""
    uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
        connection.execute("PRAGMA trusted_schema = OFF")
        yield connection


def check(path: Path) -> None:
    """Check that a copy is whole and has the tables of an archive, and nothing that runs. Raises ValueError."""
    try:
        with opened(path) as copy:
            if copy.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
                raise ValueError("the copy of the archive is damaged")
            if copy.execute("SELECT 1 FROM sqlite_master WHERE type IN ('trigger', 'view')").fetchone():
                raise ValueError("the copy of the archive has a trigger or a view")
            for table, columns in _TABLES.items():
                found = {row[1] for row in copy.execute(f"PRAGMA table_info({table})")}
                if not columns <= found:
                    raise ValueError(f"the copy of the archive has no table {table}")
    except sqlite3.Error as error:
        raise ValueError(f"the copy of the archive cannot be read: {error}") from error


def take_marks(connection: sqlite3.Connection, copy: sqlite3.Connection) -> None:
    """Take over up to when texts were erased."""
    erased = max(int(mark(each, "texts", "-1")) for each in (connection, copy))
    with transaction(connection):
        set_mark(connection, "texts", str(erased))


def take_messages(connection: sqlite3.Connection, copy: sqlite3.Connection, after: int) -> int | None:
    """Take messages that are not here; one that is here is as new or newer."""
    found = rows(copy, f"SELECT place, {MESSAGE.removeprefix('SELECT ')}", after)
    with transaction(connection):
        texts_erased = int(mark(connection, "texts", "-1"))
        for place, *columns in found:
            message = message_copy(columns)
            if connection.execute("SELECT 1 FROM message WHERE id = ?", (message.id,)).fetchone():
                continue
            ours = free_place(connection, "message", instant_of(place), place % (1 << SPREAD))
            # A text whose time is over does not come back: nobody would erase it again.
            body = message.fields.get("body") if message.ended_at > texts_erased else None
            insert_message(connection, ours, message, body)
    return last(found)


def take_events(connection: sqlite3.Connection, copy: sqlite3.Connection, after: int) -> int | None:
    found = rows(copy, "SELECT place, message, contact, fields FROM event", after)
    with transaction(connection):  # an event's place is its cursor, so one of the same place is the same
        connection.executemany("INSERT OR IGNORE INTO event VALUES (?, ?, ?, ?)", found)
    return last(found)


def take_incoming(connection: sqlite3.Connection, copy: sqlite3.Connection, after: int) -> int | None:
    found = rows(copy, "SELECT place, session, whatsapp_id, contact, fields FROM incoming", after)
    query = "SELECT 1 FROM incoming WHERE session = ? AND whatsapp_id = ?"
    with transaction(connection):
        for place, session, whatsapp_id, *rest in found:
            if not connection.execute(query, (session, whatsapp_id)).fetchone():
                ours = free_place(connection, "incoming", instant_of(place), place % (1 << SPREAD))
                values = (ours, session, whatsapp_id, *rest)
                connection.execute("INSERT INTO incoming VALUES (?, ?, ?, ?, ?)", values)
                copied = IncomingCopy(session, whatsapp_id, json.loads(rest[-1]), instant_of(ours))
                sqlite_threads.add(connection, ours, copied)
    return last(found)


#: In batches, each a transaction: what else is to be written does not wait for all of them.
TAKES: Final[tuple[Take, ...]] = (take_messages, take_events, take_incoming)


def rows(copy: sqlite3.Connection, query: str, after: int) -> list[tuple[Any, ...]]:
    """Return the next rows of a copy after a place; `query` selects the place first."""
    return copy.execute(f"{query} WHERE place > ? ORDER BY place LIMIT ?", (after, _BATCH)).fetchall()


def last(found: list[tuple[Any, ...]]) -> int | None:
    """Return the place after which more rows may be; None when these were the last."""
    return int(found[-1][0]) if len(found) == _BATCH else None
