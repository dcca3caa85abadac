"""What only an archive in PostgreSQL has to face: texts that it cannot store, a server that restarts, two writers."""

import asyncio
from dataclasses import replace

import psycopg
import pytest

from tests.archive.history import BEGIN_MS, ended_message
from tests.archive.test_threads import copy
from tests.postgres_server import PostgresServer, postgres_server
from wa_orchestrator.archive.contract import Contact
from wa_orchestrator.archive.postgres import durability, reads, schema
from wa_orchestrator.archive.postgres.driver import PostgresArchive
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.store.messages.message_filters import Filters

#: No text of PostgreSQL may have a NUL, and no index takes one that is this long.
STRANGE = ("a\0b", "x" * 9000, "back\\slash", "%s")


async def test_texts_that_the_database_cannot_store_or_index_are_kept_and_found(postgres: PostgresServer) -> None:
    archive = PostgresArchive(postgres.new_database())
    for number, text in enumerate(STRANGE):
        told = replace(ended_message(number + 1, reference=text, to=text), timeline=[f"1 failed {text}"])
        came = copy(text, number, contact_phone=text, text=text, kind=text)
        await archive.put_messages([told])
        await archive.put_incoming([came])
        assert await archive.messages([told.id]) == {told.id: told}
        assert await archive.page(Filters(reference=text), after=None, most=9) == [(told.id, told.accepted_at)]
        assert await archive.messages_to(Contact(text), after="", most=9) == [told]
        assert await archive.incoming([("w1", text)]) == {("w1", text): came.fields}
        assert await archive.search_incoming(text, among=["w1"], most=9) == [came]
        assert await archive.erase_contact(Contact(text), [], most=9) == 2
    await archive.close()


async def test_two_writers_at_once_store_each_message_once(postgres: PostgresServer) -> None:
    url = postgres.new_database()
    archives = [PostgresArchive(url) for _ in range(3)]
    messages = [ended_message(number) for number in range(1, 41)]
    came = [copy(f"A{number}") for number in range(40)]
    for _ in range(3):
        await asyncio.gather(*(each.put_messages(messages) for each in archives))
        await asyncio.gather(*(each.put_incoming(came) for each in archives))
    assert len(await archives[0].page(Filters(), after=None, most=1000)) == len(messages)
    assert len(await archives[0].incoming_of(Contact("97251"), after=-1, most=1000)) == len(came)
    assert len({await each.identity() for each in archives}) == 1
    for each in archives:
        await each.close()


def test_a_search_for_a_rare_word_reads_few_messages_however_often_it_is_made(postgres: PostgresServer) -> None:
    """PostgreSQL makes one plan for all words of a statement that is repeated, and none is right for all."""
    url = postgres.new_database()
    with schema.open_writer(url) as writer, schema.open_reader(url) as reader:
        _fill(writer, 20_000)
        for _ in range(20):
            assert len(reads.page(reader, Filters(text="hello"), None, 20)) == 20
            assert len(reads.page(reader, Filters(text="hello 77"), None, 20)) == 10
        with reader.transaction():
            before = _messages_read(reader)
            reads.page(reader, Filters(text="hello 77"), None, 20)
            assert _messages_read(reader) - before <= 20


def _fill(writer: schema.Connection, messages: int) -> None:
    """Write messages that all have the word `hello`, and ten each a number."""
    writer.execute(
        "INSERT INTO message SELECT n << 20, 'm_' || n, 'w1', '97251', 'read', '', '', n, '{}', NULL, '[]',"
        " ARRAY['hello', (n / 10)::text] FROM generate_series(0::bigint, %s) n",
        (messages - 1,),
    )
    writer.execute("ANALYZE message")


def _messages_read(reader: schema.Connection) -> int:
    """Return how many rows this connection has read, since it last told the server."""
    counted = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'message'"
    return int(reader.execute(counted).fetchall()[0][0])


async def test_it_goes_on_by_itself_when_the_database_was_restarted() -> None:
    with postgres_server("fsync=off") as server:
        archive = PostgresArchive(server.new_database())
        await archive.put_messages([ended_message(1)])
        assert len(await archive.messages([ended_message(1).id])) == 1
        server.end()
        with pytest.raises(Unavailable, match="cannot be read or written"):
            await archive.put_messages([ended_message(2)])
        server.start()
        await archive.put_messages([ended_message(2)])
        assert len(await archive.page(Filters(), after=None, most=9)) == 2
        assert durability.check(server.url()).weaknesses == ("FSYNC_OFF",)
        await archive.close()


async def test_a_commit_waits_for_the_disk_although_the_server_would_not(postgres: PostgresServer) -> None:
    archive = PostgresArchive(postgres.new_database())
    assert await archive._write(_shown) == "on"
    await archive.close()


def _shown(connection: psycopg.Connection[tuple[str]]) -> str:
    found = connection.execute("SHOW synchronous_commit").fetchone()
    return "" if found is None else found[0]


async def test_the_text_of_an_error_has_no_password(postgres: PostgresServer) -> None:
    archive = PostgresArchive(f"postgresql://wa:canarypass@/nothing?host={postgres.home}")
    with pytest.raises(Unavailable) as told:
        await archive.messages([f"m_{BEGIN_MS:x}"])
    assert "nothing" in told.value.text
    assert "canarypass" not in told.value.text
    with pytest.raises(Unavailable):
        durability.check(f"postgresql://wa@/nothing?host={postgres.home}")
    await archive.close()
