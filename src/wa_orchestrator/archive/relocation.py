"""Copies the history of the SQLite file into PostgreSQL when ARCHIVE_URL is set: once; after a crash from the start."""

from pathlib import Path
from tempfile import TemporaryDirectory

import structlog

from wa_orchestrator.archive.contract import Archive
from wa_orchestrator.archive.sqlite_archive import SqliteArchive
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.history import archive_marks

log = structlog.get_logger(__name__)


async def take_over(scripts: Scripts, file: Path, archive: Archive, identity: str) -> bool:
    """Copy the archive in use into another one, which is in use afterwards; False if `file` is not the one in use.

    What is there already is not taken twice. Only the last step changes which archive is in use, so a process that
    dies before it leaves everything as it was.
    """
    old = SqliteArchive(file)
    try:
        in_use = await archive_marks.identity(scripts)
        if not in_use or await old.identity() != in_use:
            return False
        log.info("archive.relocating", file=str(file))
        # Beside the file: it is as large, and there is room for a backup of it anyway.
        with TemporaryDirectory(prefix=".archive-", dir=file.parent) as place:
            copy = Path(place) / "copy.sqlite"
            await old.copy_to(copy)
            await archive.take_from(copy)
        return await archive_marks.replace(scripts, in_use, identity)
    finally:
        await old.close()
