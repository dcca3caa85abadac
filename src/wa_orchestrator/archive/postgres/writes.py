"""Writes of the PostgreSQL archive: each is one transaction, and repeating it changes nothing."""

import zlib
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from wa_orchestrator.archive.contract import Contact
from wa_orchestrator.archive.places import SPREAD, number_of_id, place_of, place_of_cursor
from wa_orchestrator.archive.postgres.schema import Connection, key, mark, set_mark, to_json, transaction, word_keys
from wa_orchestrator.domain.messages.incoming import AMENDMENTS
from wa_orchestrator.store.events.event_stream import contact_of
from wa_orchestrator.store.history.ended_messages import MessageCopy
from wa_orchestrator.store.messages.incoming_messages import IncomingCopy
from wa_orchestrator.store.messages.message_filters import text_in
from wa_orchestrator.store.records import Entry

Table = Literal["message", "incoming"]
_TABLES: Final = ("message", "event", "incoming")


def put_messages(connection: Connection, copies: Sequence[MessageCopy]) -> None:
    newest: dict[str, MessageCopy] = {}
    for copy in copies:
        if copy.id not in newest or copy.ended_at >= newest[copy.id].ended_at:
            newest[copy.id] = copy
    with transaction(connection):
        known = _known_messages(connection, newest)
        # An older copy is of a process that was suspended for longer than a message is fresh.
        wanted = [each for each in newest.values() if each.ended_at >= known.get(each.id, (0, 0))[1]]
        connection.execute(
            "DELETE FROM message WHERE place = ANY(%s)", ([known[each.id][0] for each in wanted if each.id in known],)
        )
        _insert_messages(connection, wanted)


def add_messages(connection: Connection, copies: Sequence[MessageCopy]) -> None:
    """Add those of these messages that are not here; one that is here is as new or newer."""
    with transaction(connection):
        known = _known_messages(connection, [each.id for each in copies])
        _insert_messages(connection, [each for each in copies if each.id not in known])


def _known_messages(connection: Connection, ids: Iterable[str]) -> dict[str, tuple[int, int]]:
    rows = connection.execute("SELECT id, place, ended_at FROM message WHERE id = ANY(%s)", (list(ids),))
    return {name: (place, ended_at) for name, place, ended_at in rows}


def _insert_messages(connection: Connection, copies: Sequence[MessageCopy]) -> None:
    texts_erased = int(mark(connection, "texts", "-1"))
    rows = []
    places = _free_places(connection, "message", [(each.accepted_at, number_of_id(each.id)) for each in copies])
    for place, copy in zip(places, copies, strict=True):
        record = dict(copy.fields)
        body = record.pop("body", None) if copy.ended_at > texts_erased else None
        record.pop("body", None)
        columns = [key(copy.fields.get(name, "")) for name in ("session", "to", "status", "reference", "batch")]
        words = word_keys(text_in(body or ""))
        rows.append((place, copy.id, *columns, copy.ended_at, to_json(record), body, to_json(copy.timeline), words))
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO message VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)", rows)


def _free_places(connection: Connection, table: Table, wanted: Sequence[tuple[int, int]]) -> list[int]:
    """Return a free place for each instant, different ones: with the number that is given if that is free."""
    found: dict[int, int] = {}
    left = dict(enumerate(wanted))
    while left:
        tried = {index: place_of(*each) for index, each in left.items()}
        query = f"SELECT place FROM {table} WHERE place = ANY(%s)"
        taken = {row[0] for row in connection.execute(query, (list(tried.values()),))} | set(found.values())
        for index, place in tried.items():
            if place in taken:
                at_ms, number = left[index]
                left[index] = (at_ms, (number + 1) % (1 << SPREAD))
            else:
                taken.add(place)
                found[index] = place
                del left[index]
    return [found[index] for index in range(len(wanted))]


def put_events(connection: Connection, entries: Sequence[Entry]) -> None:
    with transaction(connection):
        insert_events(connection, entries)
        if entries:
            set_mark(connection, "event", entries[-1].cursor)


def insert_events(connection: Connection, entries: Sequence[Entry]) -> None:
    """Store events that are not here: an event's place is its cursor, so one of the same place is the same."""
    rows = [
        (
            place_of_cursor(each.cursor),
            key(each.fields.get("message", "")),
            key(contact_of(each)),
            to_json(each.fields),
        )
        for each in entries
    ]
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO event VALUES (%s, %s, %s, %s) ON CONFLICT (place) DO NOTHING", rows)


def put_incoming(connection: Connection, copies: Sequence[IncomingCopy]) -> None:
    named = {(key(each.session), key(each.whatsapp_id)): each for each in reversed(copies)}
    query = (
        "SELECT session, whatsapp_id FROM incoming"
        " JOIN unnest(%s::text[], %s::text[]) AS wanted (session, whatsapp_id) USING (session, whatsapp_id)"
    )
    with transaction(connection):
        known = set(connection.execute(query, ([one for one, _ in named], [one for _, one in named])))
        fresh = [each for name, each in reversed(named.items()) if name not in known]
        instants = [(each.received_at, zlib.crc32(each.whatsapp_id.encode()) % (1 << SPREAD)) for each in fresh]
        rows = [
            _incoming_row(place, each)
            for place, each in zip(_free_places(connection, "incoming", instants), fresh, strict=True)
        ]
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO incoming VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)", rows)


def _incoming_row(place: int, copy: IncomingCopy) -> tuple[int | str | list[str], ...]:
    chat = "" if copy.fields.get("kind") in AMENDMENTS else copy.chat
    columns = [key(each) for each in (copy.session, copy.whatsapp_id, copy.contact, chat, copy.target)]
    name = to_json((copy.session, copy.whatsapp_id))
    return (place, *columns, name, to_json(copy.fields), word_keys(copy.fields.get("text", "")))


def erase_texts(connection: Connection, until_ms: int, most: int) -> int:
    """Erase texts of messages, which a mark keeps from being examined twice, and incoming messages, which are texts."""
    query = "SELECT ended_at FROM message WHERE ended_at > %s AND ended_at <= %s ORDER BY ended_at LIMIT %s"
    erase = "UPDATE message SET body = NULL, words = '{}' WHERE ended_at > %s AND ended_at <= %s"
    with transaction(connection):
        after = int(mark(connection, "texts", "-1"))
        found = connection.execute(query, (after, until_ms, most)).fetchall()
        if found:
            # All messages of the last millisecond, so that the mark can be set to it.
            connection.execute(erase, (after, found[-1][0]))
            set_mark(connection, "texts", str(found[-1][0]))
        return len(found) + _delete_oldest(connection, "incoming", until_ms, most)


def erase_messages(connection: Connection, until_ms: int, most: int) -> int:
    oldest = "SELECT place FROM message WHERE ended_at <= %s ORDER BY ended_at LIMIT %s"
    with transaction(connection):
        return connection.execute(f"DELETE FROM message WHERE place IN ({oldest})", (until_ms, most)).rowcount


def erase_events(connection: Connection, until_ms: int, most: int) -> int:
    with transaction(connection):
        return _delete_oldest(connection, "event", until_ms, most)


def _delete_oldest(connection: Connection, table: Literal["event", "incoming"], until_ms: int, most: int) -> int:
    oldest = f"SELECT place FROM {table} WHERE place < %s ORDER BY place LIMIT %s"
    values = (place_of(until_ms + 1), most)
    return connection.execute(f"DELETE FROM {table} WHERE place IN ({oldest})", values).rowcount


def erase_contact(connection: Connection, contact: Contact, messages: Sequence[str], most: int) -> int:
    names = [key(name) for name in contact.names]
    theirs = "SELECT place FROM message WHERE recipient = ANY(%s) LIMIT %s"
    steps: tuple[tuple[str, tuple[object, ...]], ...] = (
        (f"DELETE FROM message WHERE place IN ({theirs})", (names, most)),
        ("DELETE FROM event WHERE message != '' AND message = ANY(%s)", ([key(each) for each in messages],)),
        ("DELETE FROM event WHERE contact != '' AND contact = ANY(%s)", (names,)),
        ("DELETE FROM incoming WHERE contact != '' AND contact = ANY(%s)", (names,)),
    )
    with transaction(connection):
        return sum(connection.execute(query, values).rowcount for query, values in steps)


def shrink(connection: Connection) -> None:
    """Let the rows that were erased leave their tables and indexes."""
    for table in _TABLES:
        connection.execute(f"VACUUM {table}")
