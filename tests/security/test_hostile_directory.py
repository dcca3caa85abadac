"""A hijacked worker owns the directory of its session: nothing that it leaves there leads the server elsewhere.

Workers in containers can make links, which the server would follow with its own rights.
"""

import asyncio
import contextlib
import sqlite3
import time
from pathlib import Path

import pytest

from tests.waiting import PATIENCE_S, promised
from wa_orchestrator.context import Context
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.backups import archive_reader, session_copies
from wa_orchestrator.orchestrator.sessions import credential_files, worker_owned_files

SECRET = "a secret of the server"
ENDLESS = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS name, i AS value FROM n WHERE i < 0"
)


@pytest.fixture
def directory(context: Context) -> Path:
    """The directory of a session."""
    made = credential_files.directory(context.settings, "s1")
    made.mkdir(parents=True)
    return made


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A file of the server, or of another session."""
    file = tmp_path / "elsewhere"
    file.write_text(SECRET)
    return file


def _endless_store(path: Path) -> None:
    """A store whose tables are views over a row that never comes."""
    with contextlib.closing(sqlite3.connect(path)) as store:
        store.execute(f"CREATE VIEW meta AS {ENDLESS}")
        store.execute(f"CREATE VIEW keys AS {ENDLESS}")


async def test_a_logout_writes_through_no_link(context: Context, directory: Path, elsewhere: Path) -> None:
    """A worker reports by itself that it was logged out, and chose the file that was overwritten then."""
    (directory / "auth.db").write_bytes(b"x")
    (directory / credential_files.NOTE).symlink_to(elsewhere)
    await credential_files.discard(context.settings, "s1", 1_700_000_000_000, phone="97250", label="", why="logout")
    assert elsewhere.read_text() == SECRET  # noqa: ASYNC240 (a few bytes)
    (trashed,) = credential_files.list_trash(context.settings)
    assert (trashed.session_id, trashed.phone, trashed.why) == ("s1", "97250", "logout")


async def test_a_folder_in_the_place_of_a_file_does_not_keep_the_credentials_from_the_trash(
    context: Context, directory: Path
) -> None:
    for name in (credential_files.NOTE, credential_files.SERVER_COPY, f".{credential_files.SERVER_COPY}"):
        (directory / name / "deep").mkdir(parents=True)
    await credential_files.keep_copy(context.settings, "s1", b"copy")
    await credential_files.discard(context.settings, "s1", 1_700_000_000_000, phone="", label="", why="logout")
    (trashed,) = credential_files.list_trash(context.settings)
    assert await credential_files.trashed_copy(context.settings, trashed.id) == b"copy"


async def test_the_trash_is_read_through_no_link(context: Context, directory: Path, elsewhere: Path) -> None:
    (directory / credential_files.SERVER_COPY).symlink_to(elsewhere)
    await credential_files.discard(context.settings, "s1", 1_700_000_000_000, phone="", label="", why="logout")
    (trashed,) = credential_files.list_trash(context.settings)
    assert await credential_files.trashed_copy(context.settings, trashed.id) is None
    assert credential_files.trashed_copies(context.settings) == []


def test_a_backup_follows_no_link_out_of_a_workers_directory(directory: Path, elsewhere: Path, tmp_path: Path) -> None:
    """It would take the store of another session for that of the worker which made the link."""
    target = tmp_path / "target" / "auth.db"
    for name in ("auth.db", "copy-1.db"):
        (directory / name).symlink_to(elsewhere)
    with pytest.raises(OSError, match="symbolic links"):
        session_copies.copy_store(directory, target)
    with pytest.raises(OSError, match="symbolic links"):
        session_copies._fetch(directory / "copy-1.db", target)
    assert not target.exists()


async def test_a_store_that_never_ends_holds_up_neither_a_start_of_the_session_nor_one_of_the_server(
    context: Context, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_owned_files, "_READ_S", 0.2)
    _endless_store(directory / "auth.db")
    began = time.monotonic()
    async with asyncio.timeout(PATIENCE_S):
        assert await credential_files.stored_epoch(context.settings, "s1") == 0
        assert await asyncio.to_thread(credential_files.seals, context.settings) == []
    assert time.monotonic() - began < promised(5)


async def test_an_epoch_that_is_no_number_is_none(context: Context, directory: Path) -> None:
    with contextlib.closing(sqlite3.connect(directory / "auth.db")) as store:
        store.execute("CREATE TABLE meta (name, value)")
        store.execute("INSERT INTO meta VALUES ('epoch', 'many')")
        store.commit()
    assert await credential_files.stored_epoch(context.settings, "s1") == 0


def test_a_store_that_never_ends_does_not_hold_up_a_backup(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_reader, "_CHECKED_WITHIN_S", 0.2)
    _endless_store(directory / "auth.db")
    with pytest.raises(Refused):
        archive_reader.check_store(directory / "auth.db", "s1")
