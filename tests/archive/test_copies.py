"""Copies for backups are the same file whatever the archive is, and history moves from a file to a database."""

import asyncio
from pathlib import Path

import pytest

from tests.archive.conftest import MakeDatabase
from tests.archive.history import BEGIN_MS, DAY_MS, body_of, ended_message
from tests.archive.test_threads import copy
from tests.conftest import Clock
from tests.postgres_server import PostgresServer
from wa_orchestrator.archive import sqlite_copies
from wa_orchestrator.archive.archiver import Archiver
from wa_orchestrator.archive.contract import Archive
from wa_orchestrator.archive.factory import archive_for
from wa_orchestrator.settings import Settings
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.history import archive_marks
from wa_orchestrator.store.messages.message_filters import Filters
from wa_orchestrator.store.records import Entry

#: More than one batch of a copy.
MESSAGES = [
    ended_message(number << 40, accepted_at=BEGIN_MS + number, ended_at=BEGIN_MS + number) for number in range(1, 601)
]
INCOMING = [copy("A"), copy("B", 1, kind="reaction", text="👍", parts='{"target": {"whatsappId": "A"}}')]
EVENTS = [Entry(f"{BEGIN_MS}-{number}", {"type": "alert.test", "n": str(number)}) for number in range(3)]


async def fill(archive: Archive) -> None:
    await archive.put_messages(MESSAGES)
    await archive.put_incoming(INCOMING)
    await archive.put_events(EVENTS)


async def check(archive: Archive) -> None:
    found = await archive.messages([each.id for each in MESSAGES])
    assert found == {each.id: each for each in MESSAGES}
    assert len(await archive.page(Filters(text="number hello"), after=None, most=1000)) == len(MESSAGES)
    assert await archive.search_incoming("hello", among=None, most=9) == INCOMING[:1]
    assert await archive.changes_of("w1", ["A"]) == INCOMING[1:]
    assert await archive.events("0", most=9) == EVENTS


@pytest.mark.parametrize("into", ["sqlite", "postgres"])
async def test_a_copy_of_either_kind_is_taken_back_into_either_kind(
    archive: Archive, into: str, postgres: PostgresServer, tmp_path: Path
) -> None:
    await fill(archive)
    assert await archive.copy_to(tmp_path / "copy.sqlite")
    sqlite_copies.check(tmp_path / "copy.sqlite")
    assert (tmp_path / "copy.sqlite").stat().st_mode & 0o777 == 0o600
    where = {"archive_url": postgres.new_database()} if into == "postgres" else {}
    other = archive_for(Settings.model_validate({"data_dir": tmp_path / "other", **where}))
    await other.create()
    for _ in range(2):  # may be repeated
        await other.take_from(tmp_path / "copy.sqlite")
    await check(other)
    assert await other.last_event() == "0"
    await other.close()


async def test_there_is_no_copy_of_an_archive_that_does_not_exist(make_database: MakeDatabase, tmp_path: Path) -> None:
    nothing = archive_for(Settings(data_dir=tmp_path, **make_database()))
    assert not await nothing.copy_to(tmp_path / "copy.sqlite")
    assert (await nothing.identity(), await nothing.messages(["m_1"]), await nothing.last_event()) == ("", {}, "0")
    await nothing.close()


async def test_texts_that_were_erased_do_not_come_back_with_a_copy(archive: Archive, tmp_path: Path) -> None:
    message = ended_message(1, body=body_of("a secret"))
    await archive.put_messages([message])
    await archive.copy_to(tmp_path / "copy.sqlite")
    await archive.erase_texts(message.ended_at, most=9)
    await archive.erase_messages(message.ended_at, most=9)
    await archive.take_from(tmp_path / "copy.sqlite")
    assert "body" not in (await archive.messages([message.id]))[message.id].fields


async def test_the_history_of_the_file_moves_to_the_database_once(
    held: Scripts, clock: Clock, postgres: PostgresServer, tmp_path: Path
) -> None:
    before = Settings(data_dir=tmp_path)
    old = archive_for(before)
    await clock.set(BEGIN_MS + DAY_MS)
    await Archiver(before, held, old).step()
    await fill(old)
    await old.close()
    url = {"archive_url": postgres.new_database()}
    after = Settings.model_validate({"data_dir": tmp_path, **url})
    new = archive_for(after)
    await Archiver(after, held, new).step()
    await check(new)
    assert await archive_marks.identity(held) == await new.identity() != ""
    assert await asyncio.to_thread(lambda: list(tmp_path.glob(".archive-*"))) == []
    # Another machine has no such file, and finds the database in use.
    elsewhere = Settings.model_validate({"data_dir": tmp_path / "elsewhere", **url})
    third = archive_for(elsewhere)
    await Archiver(elsewhere, held, third).step()
    assert await archive_marks.failing(held) is None
    await third.close()
    await new.close()
