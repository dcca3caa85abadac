"""Writes of the SQLite archive: each is one transaction, and repeating it changes nothing."""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from wa_orchestrator.archive import sqlite_threads
from wa_orchestrator.archive.contract import Contact
from wa_orchestrator.archive.places import SPREAD, number_of_id, place_of, place_of_cursor
from wa_orchestrator.archive.sqlite_reads import COLUMNS, marks, select_in
from wa_orchestrator.archive.sqlite_schema import ERASES_WORDS, WORD_TABLES, mark, set_mark
from wa_orchestrator.domain.messages.search_words import words_of
from wa_orchestrator.store.events.event_stream import contact_of
from wa_orchestrator.store.history.ended_messages import MessageCopy
from wa_orchestrator.store.messages.incoming_messages import IncomingCopy
from wa_orchestrator.store.messages.message_filters import text_in
from wa_orchestrator.store.records import Entry

#: Pages of the index of words that one step of a merge writes, and steps of one call.
_MERGED_PAGES: Final = 64
_MERGE_STEPS: Final = 200


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit what the block writes, on disk when this returns; nothing of it if the block fails."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def prepare(connection: sqlite3.Connection) -> None:
    """Bring an archive of an earlier version up to date."""
    with transaction(connection):
        if not mark(connection, "incoming_threads", ""):
            sqlite_threads.index(connection)
            set_mark(connection, "incoming_threads", "1")


def put_messages(connection: sqlite3.Connection, copies: Sequence[MessageCopy]) -> None:
    with transaction(connection):
        texts_erased = int(mark(connection, "texts", "-1"))
        query = "SELECT id, place, ended_at FROM message WHERE id IN ({})"
        known = {name: (place, at) for name, place, at in select_in(connection, query, [each.id for each in copies])}
        for copy in copies:
            place, ended_at = known.get(copy.id, (None, 0))
            if copy.ended_at < ended_at:  # of a process that was suspended for longer than a message is fresh
                continue
            body = copy.fields.get("body") if copy.ended_at > texts_erased else None
            if place is None:
                place = free_place(connection, "message", copy.accepted_at, number_of_id(copy.id))
            else:
                _erase_messages(connection, [place])
            insert_message(connection, place, copy, body)
            known[copy.id] = (place, copy.ended_at)


def insert_message(connection: sqlite3.Connection, place: int, copy: MessageCopy, body: str | None) -> None:
    columns = [copy.fields.get(name, "") for name in COLUMNS[:-1]]
    record = {name: value for name, value in copy.fields.items() if name not in COLUMNS}
    row = (place, *columns, body, copy.ended_at, _json(record), "\n".join(copy.timeline))
    connection.execute(
        "INSERT INTO message"
        " (place, id, session, recipient, status, reference, batch, body, ended_at, record, timeline)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        row,
    )
    if words := words_of(text_in(body or "")):
        connection.execute("INSERT INTO message_text (rowid, words) VALUES (?, ?)", (place, " ".join(words)))


def free_place(connection: sqlite3.Connection, table: str, at_ms: int, number: int) -> int:
    """Return a free place of a millisecond, this one if it is free."""
    while True:
        place = place_of(at_ms, number)
        if not connection.execute(f"SELECT 1 FROM {table} WHERE place = ?", (place,)).fetchone():
            return place
        number = (number + 1) % (1 << SPREAD)


def put_events(connection: sqlite3.Connection, entries: Sequence[Entry]) -> None:
    rows = [
        (place_of_cursor(each.cursor), each.fields.get("message", ""), contact_of(each), _json(each.fields))
        for each in entries
    ]
    with transaction(connection):
        connection.executemany("INSERT OR IGNORE INTO event VALUES (?, ?, ?, ?)", rows)
        if entries:
            set_mark(connection, "event", entries[-1].cursor)


def put_incoming(connection: sqlite3.Connection, copies: Sequence[IncomingCopy]) -> None:
    query = "SELECT 1 FROM incoming WHERE session = ? AND whatsapp_id = ?"
    with transaction(connection):
        for copy in copies:
            if connection.execute(query, (copy.session, copy.whatsapp_id)).fetchone():
                continue
            insert_incoming(connection, free_place(connection, "incoming", copy.received_at, 0), copy)


def insert_incoming(connection: sqlite3.Connection, place: int, copy: IncomingCopy) -> None:
    row = (place, copy.session, copy.whatsapp_id, copy.contact, _json(copy.fields))
    connection.execute("INSERT INTO incoming VALUES (?, ?, ?, ?, ?)", row)
    sqlite_threads.add(connection, place, copy)


def erase_texts(connection: sqlite3.Connection, until_ms: int, most: int) -> int:
    """Erase texts of messages, which a mark keeps from being examined twice, and incoming messages, which are texts."""
    query = "SELECT place, ended_at FROM message WHERE ended_at > ? AND ended_at <= ? ORDER BY ended_at LIMIT ?"
    with transaction(connection):
        found = connection.execute(query, (mark(connection, "texts", "-1"), until_ms, most)).fetchall()
        if found:
            last = found[-1][1]
            # All messages of the last millisecond, so that the mark can be set to it.
            whole = connection.execute("SELECT place FROM message WHERE ended_at = ?", (last,))
            places = [(place,) for place in {row[0] for row in (*found, *whole)}]
            connection.executemany("UPDATE message SET body = NULL WHERE place = ?", places)
            connection.executemany("DELETE FROM message_text WHERE rowid = ?", places)
            set_mark(connection, "texts", str(last))
        incoming = _delete_oldest(connection, "incoming", until_ms, most)
    return len(found) + incoming


def erase_messages(connection: sqlite3.Connection, until_ms: int, most: int) -> int:
    query = "SELECT place FROM message WHERE ended_at <= ? ORDER BY ended_at LIMIT ?"
    with transaction(connection):
        places = [row[0] for row in connection.execute(query, (until_ms, most))]
        _erase_messages(connection, places)
    return len(places)


def _erase_messages(connection: sqlite3.Connection, places: Sequence[int]) -> None:
    rows = [(place,) for place in places]
    connection.executemany("DELETE FROM message_text WHERE rowid = ?", rows)
    connection.executemany("DELETE FROM message WHERE place = ?", rows)


def erase_events(connection: sqlite3.Connection, until_ms: int, most: int) -> int:
    with transaction(connection):
        return _delete_oldest(connection, "event", until_ms, most)


def _delete_oldest(connection: sqlite3.Connection, table: str, until_ms: int, most: int) -> int:
    oldest = f"SELECT place FROM {table} WHERE place < ? ORDER BY place LIMIT ?"
    values = (place_of(until_ms + 1), most)
    if table == "incoming":
        sqlite_threads.remove(connection, oldest, values)
    return connection.execute(f"DELETE FROM {table} WHERE place IN ({oldest})", values).rowcount


def erase_contact(connection: sqlite3.Connection, contact: Contact, messages: Sequence[str], most: int) -> int:
    with transaction(connection):
        query = f"SELECT place FROM message WHERE recipient IN ({marks(contact.names)}) LIMIT ?"
        places = [row[0] for row in connection.execute(query, (*contact.names, most))]
        _erase_messages(connection, places)
        events = "DELETE FROM event WHERE message != '' AND message = ?"
        erased = len(places) + sum(connection.execute(events, (name,)).rowcount for name in messages)
        for name in contact.names:
            theirs = "SELECT place FROM incoming WHERE contact != '' AND contact = ?"
            sqlite_threads.remove(connection, theirs, (name,))
        for table in ("incoming", "event"):
            query = f"DELETE FROM {table} WHERE contact != '' AND contact = ?"
            erased += sum(connection.execute(query, (name,)).rowcount for name in contact.names)
    return erased


def shrink(connection: sqlite3.Connection) -> None:
    """Merge erased words out of their index, and empty the log, in which erased pages stand until it is."""
    for table in () if ERASES_WORDS else WORD_TABLES:
        for _ in range(_MERGE_STEPS):
            before = connection.total_changes
            connection.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('merge', ?)", (-_MERGED_PAGES,))
            if connection.total_changes - before < 2:  # as SQLite documents it: nothing is left to merge
                break
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _json(fields: Mapping[str, str]) -> str:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
