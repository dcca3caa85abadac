"""Archives of both kinds, each empty; what is promised holds for both."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.postgres_server import PostgresServer, postgres_server
from wa_orchestrator.archive.contract import Archive
from wa_orchestrator.archive.factory import archive_for
from wa_orchestrator.settings import Settings

#: Makes an empty database, and returns what settings say about it; nothing for SQLite.
MakeDatabase = Callable[[], dict[str, Any]]


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL for this test process; nothing of it survives."""
    with postgres_server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make_database(kind: str, request: pytest.FixtureRequest) -> MakeDatabase:
    """Makes an empty place for an archive of this kind."""
    if kind == "sqlite":
        return dict
    server: PostgresServer = request.getfixturevalue("postgres")
    return lambda: {"archive_url": server.new_database()}


@pytest.fixture
def database(make_database: MakeDatabase) -> dict[str, Any]:
    """What settings say about an empty database."""
    return make_database()


@pytest.fixture
async def archive(make_database: MakeDatabase, tmp_path: Path) -> AsyncIterator[Archive]:
    """An empty archive."""
    made = archive_for(Settings(data_dir=tmp_path, **make_database()))
    await made.create()
    yield made
    await made.close()
