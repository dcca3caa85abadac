"""Reads of the PostgreSQL archive. Each is a function of a connection and runs in a thread."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, LiteralString

from wa_orchestrator.archive import paging
from wa_orchestrator.archive.contract import Contact
from wa_orchestrator.archive.places import LAST_PLACE, cursor_of, instant_of, place_of, place_of_cursor
from wa_orchestrator.archive.postgres.schema import Connection, key, mark, word_keys
from wa_orchestrator.domain.messages.search_words import words_of
from wa_orchestrator.store.history.ended_messages import MessageCopy
from wa_orchestrator.store.messages.incoming_messages import IncomingCopy
from wa_orchestrator.store.messages.message_filters import ENDED_STATUSES, Filters
from wa_orchestrator.store.messages.message_index import IndexEntry, newest_last
from wa_orchestrator.store.records import Entry

MESSAGE: Final = "SELECT id, record, body, timeline, ended_at FROM message"
INCOMING: Final = "SELECT place, name, fields FROM incoming"
#: Hits of the index of words that are examined for one search.
_MOST_HITS: Final = 2_000


def identity(connection: Connection) -> str:
    return mark(connection, "identity", "")


def last_event(connection: Connection) -> str:
    return mark(connection, "event", "0")


# -- messages --


@dataclass(frozen=True, slots=True)
class PostgresRows:
    """Messages under a condition that one index serves."""

    condition: LiteralString
    values: tuple[str | list[str], ...] = ()

    def rows(self, connection: Connection, low: int, high: int, most: int = -1, /) -> list[tuple[int, str]]:
        """Return the rows from `low` to before `high`, the newest first."""
        bounds = "place >= %s AND place < %s ORDER BY place DESC LIMIT %s"
        query = f"SELECT place, id FROM message WHERE {self.condition} AND {bounds}"
        found = connection.execute(query, (*self.values, low, high, most if most >= 0 else None))
        return [(place, name) for place, name in found]


def sources_of(filters: Filters) -> list[PostgresRows]:
    """Return the narrowest rows that contain all matches."""
    if filters.batch_id is not None:
        return [PostgresRows("batch != '' AND batch = %s", (key(filters.batch_id),))]
    if filters.reference is not None:
        return [PostgresRows("reference != '' AND reference = %s", (key(filters.reference),))]
    if filters.to is not None and filters.session_id is not None:
        return [PostgresRows("recipient = %s AND session = %s", (key(filters.to), key(filters.session_id)))]
    if filters.to is not None:
        return [PostgresRows("recipient = %s", (key(filters.to),))]
    if words := word_keys(filters.text or ""):
        return [PostgresRows("words @> %s", (words,))]
    statuses = sorted(ENDED_STATUSES.intersection(filters.statuses or ENDED_STATUSES))
    if filters.session_id is not None:
        return [PostgresRows("session = %s AND status = %s", (key(filters.session_id), str(each))) for each in statuses]
    if filters.statuses:
        return [PostgresRows("status = %s", (str(each),)) for each in statuses]
    return [PostgresRows("TRUE")]


def page(connection: Connection, filters: Filters, after: IndexEntry | None, most: int) -> list[IndexEntry]:
    return paging.page([partial(each.rows, connection) for each in sources_of(filters)], filters, after, most)


def messages(connection: Connection, ids: Sequence[str]) -> dict[str, MessageCopy]:
    rows = connection.execute(f"{MESSAGE} WHERE id = ANY(%s)", ([key(each) for each in ids],))
    return {row[0]: message_copy(row) for row in rows}


def messages_to(connection: Connection, contact: Contact, after: str, most: int) -> list[MessageCopy]:
    query = f"{MESSAGE} WHERE recipient = ANY(%s) AND id > %s ORDER BY id LIMIT %s"
    names = [key(name) for name in contact.names]
    return [message_copy(row) for row in connection.execute(query, (names, after, most))]


def message_copy(row: Sequence[Any]) -> MessageCopy:
    """Return a message of a row of `MESSAGE`."""
    name, record, body, timeline, ended_at = row
    content = {} if body is None else {"body": body}
    return MessageCopy(name, {**json.loads(record), **content}, json.loads(timeline), ended_at)


# -- events --


def events(connection: Connection, after: str, most: int) -> list[Entry]:
    query = "SELECT place, fields FROM event WHERE place > %s ORDER BY place LIMIT %s"
    return [entry(row) for row in connection.execute(query, (place_of_cursor(after), most))]


def events_of(connection: Connection, contact: Contact, after: str, most: int) -> list[Entry]:
    theirs = "contact != '' AND contact = ANY(%s) AND place > %s"
    query = f"SELECT place, fields FROM event WHERE {theirs} ORDER BY place LIMIT %s"
    values = ([key(name) for name in contact.names], place_of_cursor(after), most)
    return [entry(row) for row in connection.execute(query, values)]


def entry(row: Sequence[Any]) -> Entry:
    return Entry(cursor_of(row[0]), json.loads(row[1]))


# -- incoming messages --


def incoming(connection: Connection, names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Mapping[str, str]]:
    query = (
        "SELECT wanted.number, fields FROM incoming"
        " JOIN unnest(%s::text[], %s::text[]) WITH ORDINALITY AS wanted (session, whatsapp_id, number)"
        " USING (session, whatsapp_id)"
    )
    rows = connection.execute(query, ([key(one) for one, _ in names], [key(one) for _, one in names]))
    return {names[number - 1]: json.loads(fields) for number, fields in rows}


def incoming_of(connection: Connection, contact: Contact, after: int, most: int) -> list[tuple[int, IncomingCopy]]:
    query = f"{INCOMING} WHERE contact != '' AND contact = ANY(%s) AND place > %s ORDER BY place LIMIT %s"
    values = ([key(name) for name in contact.names], after, most)
    return [(row[0], incoming_copy(row)) for row in connection.execute(query, values)]


def incoming_page(
    connection: Connection, session: str, chats: Sequence[str], after: IndexEntry | None, most: int
) -> list[IncomingCopy]:
    """Return the next messages of a conversation, the newest first by (received at, id)."""
    found = _older(connection, session, chats, LAST_PLACE if after is None else place_of(after[1]), most)
    if after is not None:
        found += _between(connection, session, chats, place_of(after[1]), place_of(after[1] + 1))
    if len(found) >= most:  # within a millisecond rows are not in the order of ids, so all of the last one's are read
        last = min(each.received_at for each in found)
        found += _between(connection, session, chats, place_of(last), place_of(last + 1))
    different = sorted({each.id: each for each in found}.values(), key=_order, reverse=True)
    return [each for each in different if after is None or _order(each) < newest_last(after)][:most]


_OF_CHAT: Final = f"{INCOMING} WHERE session = %s AND chat != '' AND chat = ANY(%s)"


def _older(connection: Connection, session: str, chats: Sequence[str], before: int, most: int) -> list[IncomingCopy]:
    values = (key(session), [key(chat) for chat in chats], before, most)
    rows = connection.execute(f"{_OF_CHAT} AND place < %s ORDER BY place DESC LIMIT %s", values)
    return [incoming_copy(row) for row in rows]


def _between(connection: Connection, session: str, chats: Sequence[str], low: int, high: int) -> list[IncomingCopy]:
    values = (key(session), [key(chat) for chat in chats], low, high)
    return [incoming_copy(row) for row in connection.execute(f"{_OF_CHAT} AND place >= %s AND place < %s", values)]


def changes_of(connection: Connection, session: str, targets: Sequence[str]) -> list[IncomingCopy]:
    """Return reactions, votes, edits and deletions of these messages, the oldest first."""
    query = f"{INCOMING} WHERE session = %s AND target != '' AND target = ANY(%s) ORDER BY place"
    return [incoming_copy(row) for row in connection.execute(query, (key(session), [key(each) for each in targets]))]


def search_incoming(connection: Connection, text: str, among: Collection[str] | None, most: int) -> list[IncomingCopy]:
    """Return messages that contain all words of a text, the newest first, of these sessions."""
    if not (words := word_keys(text)):
        return []
    theirs, values = ("", ()) if among is None else ("session = ANY(%s) AND", ([key(each) for each in among],))
    query = f"{INCOMING} WHERE {theirs} words @> %s ORDER BY place DESC LIMIT %s"
    found = map(incoming_copy, connection.execute(query, (*values, words, _MOST_HITS)))
    wanted = set(words_of(text))
    return [each for each in found if wanted <= set(words_of(each.fields.get("text", "")))][:most]


def incoming_copy(row: Sequence[Any]) -> IncomingCopy:
    """Return an incoming message of a row of `INCOMING`."""
    place, name, fields = row
    session, whatsapp_id = json.loads(name)
    return IncomingCopy(session, whatsapp_id, json.loads(fields), instant_of(place))


def _order(copy: IncomingCopy) -> tuple[int, str]:
    return newest_last((copy.id, copy.received_at))
