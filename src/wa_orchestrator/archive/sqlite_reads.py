"""Reads of the SQLite archive. Each is a function of a connection and runs in a thread."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from wa_orchestrator.archive import paging
from wa_orchestrator.archive.contract import Contact
from wa_orchestrator.archive.places import cursor_of, instant_of, place_of_cursor
from wa_orchestrator.archive.sqlite_schema import mark
from wa_orchestrator.archive.sqlite_words import query_of
from wa_orchestrator.domain.messages.search_words import words_of
from wa_orchestrator.store.history.ended_messages import MessageCopy
from wa_orchestrator.store.messages.incoming_messages import IncomingCopy
from wa_orchestrator.store.messages.message_filters import ENDED_STATUSES, Filters
from wa_orchestrator.store.messages.message_index import IndexEntry
from wa_orchestrator.store.records import Entry

#: Columns of a message that are fields of its hash, in the order of `MESSAGE`.
COLUMNS: Final = ("id", "session", "to", "status", "reference", "batch", "body")
MESSAGE: Final = (
    "SELECT id, session, recipient, status, reference, batch, body, record, timeline, ended_at FROM message"
)
_ROWS: Final = "SELECT place, id FROM message INDEXED BY {index} WHERE {condition}"


@dataclass(frozen=True, slots=True)
class Source:
    """Rows in the order of places: a query without its bounds, and its values."""

    query: str
    values: tuple[str, ...]
    place: str = "place"

    def rows(self, connection: sqlite3.Connection, low: int, high: int, most: int = -1) -> list[tuple[int, str]]:
        """Return the rows from `low` to before `high`, the newest first."""
        bounds = f"{self.place} >= ? AND {self.place} < ? ORDER BY {self.place} DESC LIMIT ?"
        return connection.execute(f"{self.query} AND {bounds}", (*self.values, low, high, most)).fetchall()


def identity(connection: sqlite3.Connection) -> str:
    return mark(connection, "identity", "")


def sources_of(connection: sqlite3.Connection, filters: Filters) -> list[Source]:
    """Return the narrowest rows that contain all matches."""
    if filters.batch_id is not None:
        return [_by("message_batch", "batch != '' AND batch = ?", filters.batch_id)]
    if filters.reference is not None:
        return [_by("message_reference", "reference != '' AND reference = ?", filters.reference)]
    if filters.to is not None and filters.session_id is not None:
        # No index is named: an archive gets this one from the leader, and others may read it before.
        query = "SELECT place, id FROM message WHERE recipient = ? AND session = ?"
        return [Source(query, (filters.to, filters.session_id))]
    if filters.to is not None:
        return [_by("message_recipient", "recipient = ?", filters.to)]
    if words := words_of(filters.text or ""):
        query = "SELECT message.place, id FROM message_text CROSS JOIN message ON message.place = message_text.rowid"
        wanted = query_of(connection, "message_text", words)
        return [Source(f"{query} WHERE message_text MATCH ?", (wanted,), "message_text.rowid")]
    statuses = sorted(ENDED_STATUSES.intersection(filters.statuses or ENDED_STATUSES))
    if filters.session_id is not None:
        condition = "session = ? AND status = ?"
        return [_by("message_session", condition, filters.session_id, status) for status in statuses]
    if filters.statuses:
        return [_by("message_status", "status = ?", status) for status in statuses]
    return [Source("SELECT place, id FROM message WHERE TRUE", ())]


def _by(index: str, condition: str, *values: str) -> Source:
    return Source(_ROWS.format(index=index, condition=condition), values)


def page(connection: sqlite3.Connection, filters: Filters, after: IndexEntry | None, most: int) -> list[IndexEntry]:
    return paging.page(
        [partial(each.rows, connection) for each in sources_of(connection, filters)], filters, after, most
    )


def messages(connection: sqlite3.Connection, ids: Sequence[str]) -> dict[str, MessageCopy]:
    return {row[0]: message_copy(row) for row in select_in(connection, f"{MESSAGE} WHERE id IN ({{}})", ids)}


def messages_to(connection: sqlite3.Connection, contact: Contact, after: str, most: int) -> list[MessageCopy]:
    theirs = f"recipient IN ({marks(contact.names)})"
    query = f"{MESSAGE} INDEXED BY message_recipient WHERE {theirs} AND id > ? ORDER BY id LIMIT ?"
    return [message_copy(row) for row in connection.execute(query, (*contact.names, after, most))]


def message_copy(row: Sequence[Any]) -> MessageCopy:
    *columns, record, timeline, ended_at = row
    known = {name: value for name, value in zip(COLUMNS, columns, strict=True) if value is not None}
    return MessageCopy(row[0], {**json.loads(record), **known}, timeline.split("\n") if timeline else [], ended_at)


def events(connection: sqlite3.Connection, after: str, most: int) -> list[Entry]:
    query = "SELECT place, fields FROM event WHERE place > ? ORDER BY place LIMIT ?"
    return [entry(row) for row in connection.execute(query, (place_of_cursor(after), most))]


def events_of(connection: sqlite3.Connection, contact: Contact, after: str, most: int) -> list[Entry]:
    query = "SELECT place, fields FROM event WHERE contact != '' AND contact = ? AND place > ? ORDER BY place LIMIT ?"
    rows = [row for name in contact.names for row in connection.execute(query, (name, place_of_cursor(after), most))]
    return [entry(row) for row in sorted(rows)[:most]]


def entry(row: tuple[int, str]) -> Entry:
    return Entry(cursor_of(row[0]), json.loads(row[1]))


def last_event(connection: sqlite3.Connection) -> str:
    return mark(connection, "event", "0")


def incoming(
    connection: sqlite3.Connection, names: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], Mapping[str, str]]:
    query = "SELECT fields FROM incoming WHERE session = ? AND whatsapp_id = ?"
    found = {name: connection.execute(query, name).fetchone() for name in names}
    return {name: json.loads(row[0]) for name, row in found.items() if row}


def incoming_of(
    connection: sqlite3.Connection, contact: Contact, after: int, most: int
) -> list[tuple[int, IncomingCopy]]:
    query = (
        "SELECT place, session, whatsapp_id, fields FROM incoming"
        " WHERE contact != '' AND contact = ? AND place > ? ORDER BY place LIMIT ?"
    )
    rows = [row for name in contact.names for row in connection.execute(query, (name, after, most))]
    return [
        (place, IncomingCopy(session, whatsapp_id, json.loads(fields), instant_of(place)))
        for place, session, whatsapp_id, fields in sorted(rows)[:most]
    ]


def marks(values: Sequence[object]) -> str:
    """Return the placeholders of an `IN (…)`."""
    return ", ".join("?" * len(values))


def select_in(connection: sqlite3.Connection, query: str, values: Sequence[str | int]) -> list[Any]:
    """Return the rows of a query with `IN ({})`."""
    return connection.execute(query.format(marks(values)), values).fetchall()
