"""An archive in a directory of its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from wa_orchestrator.archive.sqlite_archive import SqliteArchive


@pytest.fixture
async def archive(tmp_path: Path) -> AsyncIterator[SqliteArchive]:
    """An empty archive."""
    made = SqliteArchive(tmp_path / "archive.sqlite")
    await made.create()
    yield made
    await made.close()
