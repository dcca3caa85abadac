"""Credential files: one directory per session, and a trash from which they can be restored for TRASH_DAYS."""

import asyncio
import contextlib
import json
import re
import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path

import structlog

from wa_orchestrator.errors import Refused
from wa_orchestrator.settings import Settings

TRASH = ".trash"
NOTE = "trash.json"
#: The worker's store, in the directory of its session.
DATABASE = "auth.db"
_NAME = re.compile(r"(?P<session>[A-Za-z0-9_-]{1,64})-(?P<at>\d{10,16})")
_DAY_MS = 24 * 3600 * 1000

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TrashedCredentials:
    """Credentials in the trash."""

    id: str
    session_id: str
    at_ms: int
    phone: str
    label: str
    why: str


def directory(settings: Settings, session_id: str) -> Path:
    """Return the directory of a session's credentials."""
    return settings.sessions_dir.absolute() / session_id


async def stored_epoch(settings: Settings, session_id: str) -> int:
    """Return the highest epoch that has opened a session's directory; 0 if it is new or cannot be read."""
    return await asyncio.to_thread(_stored_epoch, directory(settings, session_id) / DATABASE)


def _stored_epoch(database: Path) -> int:
    if not database.is_file():
        return 0
    try:
        with contextlib.closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=1)) as opened:
            row = opened.execute("SELECT value FROM meta WHERE name = 'epoch'").fetchone()
    except sqlite3.Error as error:  # the worker itself will say what is wrong with it
        log.warning("credentials.epoch_unreadable", session=database.parent.name, error=str(error))
        return 0
    return int(row[0]) if row else 0


async def linked_sessions(settings: Settings) -> list[str]:
    """Return the sessions that have credentials on disk."""
    root = settings.sessions_dir.absolute()
    found = await asyncio.to_thread(lambda: sorted(root.glob(f"*/{DATABASE}")))
    return [each.parent.name for each in found]


def _trash(settings: Settings) -> Path:
    return settings.sessions_dir.absolute() / TRASH


async def discard(settings: Settings, session_id: str, now_ms: int, *, phone: str, label: str, why: str) -> str | None:
    """Move a session's credentials to the trash and return their trash id; None if it has none.

    Its worker must not run.
    """
    note = {"phone": phone, "label": label, "why": why}
    return await asyncio.to_thread(_discard, settings, session_id, now_ms, note)


def _discard(settings: Settings, session_id: str, now_ms: int, note: dict[str, str]) -> str | None:
    source = directory(settings, session_id)
    if not source.is_dir() or not any(source.iterdir()):
        return None
    _trash(settings).mkdir(mode=0o700, parents=True, exist_ok=True)
    name = f"{session_id}-{now_ms}"
    (source / NOTE).write_text(json.dumps(note), "utf-8")
    source.rename(_trash(settings) / name)
    log.info("credentials.discarded", session=session_id, why=note["why"])
    return name


def list_trash(settings: Settings) -> list[TrashedCredentials]:
    """Return the contents of the trash, the newest first."""
    if not _trash(settings).is_dir():
        return []
    found = [_read_entry(path) for path in _trash(settings).iterdir()]
    return sorted((each for each in found if each), key=lambda each: -each.at_ms)


def _read_entry(path: Path) -> TrashedCredentials | None:
    name = _NAME.fullmatch(path.name)
    if name is None or not path.is_dir():
        return None
    try:
        note = json.loads((path / NOTE).read_text("utf-8"))
    except (OSError, ValueError):
        note = {}
    return TrashedCredentials(
        path.name,
        name["session"],
        int(name["at"]),
        str(note.get("phone", "")),
        str(note.get("label", "")),
        str(note.get("why", "")),
    )


def find(settings: Settings, trash_id: str) -> TrashedCredentials:
    """Return an entry of the trash, or raise `Refused`."""
    for each in list_trash(settings):
        if each.id == trash_id:
            return each
    raise Refused(
        "NOT_IN_TRASH", f"There is nothing in the trash with the id {trash_id}. GET /api/v1/trash lists it.", 404
    )


def require_none(settings: Settings, session_id: str) -> None:
    """Raise `Refused` if a session has credentials."""
    place = directory(settings, session_id)
    if place.exists() and not (place.is_dir() and not any(place.iterdir())):
        raise Refused("HAS_CREDENTIALS", f"Session {session_id} has credentials. Log it out or delete it first.", 409)


async def restore(settings: Settings, trash_id: str, session_id: str) -> None:
    """Move credentials from the trash to a session that has none. Its worker must not run."""
    await asyncio.to_thread(_restore, settings, trash_id, session_id)


def _restore(settings: Settings, trash_id: str, session_id: str) -> None:
    find(settings, trash_id)
    require_none(settings, session_id)
    target = directory(settings, session_id)
    if target.is_dir():
        target.rmdir()
    (_trash(settings) / trash_id).rename(target)
    (target / NOTE).unlink(missing_ok=True)


async def purge(settings: Settings, now_ms: int) -> int:
    """Delete what has been in the trash for longer than TRASH_DAYS. Return how many entries."""
    old = [each for each in list_trash(settings) if each.at_ms <= now_ms - settings.trash_days * _DAY_MS]
    for each in old:
        await asyncio.to_thread(shutil.rmtree, _trash(settings) / each.id, ignore_errors=True)
        log.info("credentials.purged", session=each.session_id)
    return len(old)
