"""Incoming messages of the SQLite archive by conversation, by the message they change, and by their words."""

import json
import sqlite3
from collections.abc import Collection, Sequence
from typing import Any, Final

from wa_orchestrator.archive.places import LAST_PLACE, instant_of, place_of
from wa_orchestrator.archive.sqlite_words import query_of
from wa_orchestrator.domain.messages.incoming import AMENDMENTS
from wa_orchestrator.domain.messages.search_words import words_of
from wa_orchestrator.store.messages.incoming_messages import IncomingCopy
from wa_orchestrator.store.messages.message_index import IndexEntry, newest_last

_ROWS: Final = (
    "SELECT place, incoming.session, whatsapp_id, fields FROM incoming_thread AS thread JOIN incoming USING (place)"
)
#: Hits of the index of words that are examined for one search.
_MOST_HITS: Final = 2_000


def incoming_page(
    connection: sqlite3.Connection, session: str, chats: Sequence[str], after: IndexEntry | None, most: int
) -> list[IncomingCopy]:
    """Return the next messages of a conversation, the newest first by (received at, id)."""
    # All of the cursor's millisecond are read: within one, rows are not in the order of ids.
    high = LAST_PLACE if after is None else place_of(after[1] + 1)
    query = (
        f"{_ROWS} WHERE thread.session = ? AND chat = ? AND chat != '' AND place < ? ORDER BY thread.place DESC LIMIT ?"
    )
    found: dict[str, IncomingCopy] = {}
    for chat in chats:
        rows = connection.execute(query, (session, chat, high, most + _same_instant(connection, session, chat, after)))
        found |= {each.id: each for each in map(incoming_copy, rows)}
    entries = sorted(found.values(), key=_order, reverse=True)
    return [each for each in entries if after is None or _order(each) < newest_last(after)][:most]


def _same_instant(connection: sqlite3.Connection, session: str, chat: str, after: IndexEntry | None) -> int:
    """Return how many messages of a conversation came in the millisecond of a cursor."""
    if after is None:
        return 0
    counted = "SELECT count(*) FROM incoming_thread WHERE session = ? AND chat = ? AND chat != ''"
    query = f"{counted} AND place >= ? AND place < ?"
    return int(connection.execute(query, (session, chat, place_of(after[1]), place_of(after[1] + 1))).fetchone()[0])


def changes_of(connection: sqlite3.Connection, session: str, targets: Sequence[str]) -> list[IncomingCopy]:
    """Return reactions, votes, edits and deletions of these messages, the oldest first."""
    named = ", ".join("?" * len(targets))
    query = f"{_ROWS} WHERE thread.session = ? AND target IN ({named}) AND target != '' ORDER BY thread.place"
    return [incoming_copy(row) for row in connection.execute(query, (session, *targets))]


def search_incoming(
    connection: sqlite3.Connection, text: str, among: Collection[str] | None, most: int
) -> list[IncomingCopy]:
    """Return messages that contain all words of a text, the newest first, of these sessions."""
    if not (words := words_of(text)):
        return []
    query = (
        "SELECT incoming.place, session, whatsapp_id, fields FROM incoming_text"
        " CROSS JOIN incoming ON incoming.place = incoming_text.rowid"
        " WHERE incoming_text MATCH ? ORDER BY incoming_text.rowid DESC LIMIT ?"
    )
    rows = connection.execute(query, (query_of(connection, "incoming_text", words), _MOST_HITS))
    found = (incoming_copy(row) for row in rows if among is None or row[1] in among)
    return [each for each in found if set(words) <= set(words_of(each.fields.get("text", "")))][:most]


def add(connection: sqlite3.Connection, place: int, copy: IncomingCopy) -> None:
    """Put an incoming message into its conversation, and its words into their index."""
    chat = "" if copy.fields.get("kind") in AMENDMENTS else copy.chat
    connection.execute("INSERT INTO incoming_thread VALUES (?, ?, ?, ?)", (place, copy.session, chat, copy.target))
    if words := words_of(copy.fields.get("text", "")):
        connection.execute("INSERT INTO incoming_text (rowid, words) VALUES (?, ?)", (place, " ".join(words)))


def remove(connection: sqlite3.Connection, places: str, values: Sequence[Any]) -> None:
    """Undo `add` for the places that a query with these values finds."""
    connection.execute(f"DELETE FROM incoming_text WHERE rowid IN ({places})", values)
    connection.execute(f"DELETE FROM incoming_thread WHERE place IN ({places})", values)


def index(connection: sqlite3.Connection) -> None:
    """Add all messages, for an archive of a version that knew no conversations."""
    connection.execute("DELETE FROM incoming_text")
    connection.execute("DELETE FROM incoming_thread")
    query = "SELECT place, session, whatsapp_id, fields FROM incoming"
    for row in connection.execute(query).fetchall():
        add(connection, row[0], incoming_copy(row))


def incoming_copy(row: Sequence[Any]) -> IncomingCopy:
    place, session, whatsapp_id, fields = row
    return IncomingCopy(session, whatsapp_id, json.loads(fields), instant_of(place))


def _order(copy: IncomingCopy) -> tuple[int, str]:
    return newest_last((copy.id, copy.received_at))
