"""Credential files: one directory per session, and a trash from which they can be restored for TRASH_DAYS."""

import asyncio
import contextlib
import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.errors import Refused
from wa_orchestrator.settings import Settings

TRASH = ".trash"
NOTE = "trash.json"
#: The worker's store, in the directory of its session.
DATABASE = "auth.db"
_NAME = re.compile(r"(?P<session>[A-Za-z0-9_-]{1,64})-(?P<at>\d{10,16})")
_DAY_MS = 24 * 3600 * 1000
_PURGE_EVERY_S = 3600.0

P = ParamSpec("P")
T = TypeVar("T")
log = structlog.get_logger(__name__)


def _in_thread(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Run a function in a thread: a slow disk must not hold up the event loop."""

    @wraps(function)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(function, *args, **kwargs)

    return run


@dataclass(frozen=True, slots=True)
class TrashedCredentials:
    id: str
    session_id: str
    at_ms: int
    phone: str
    label: str
    why: str


def directory(settings: Settings, session_id: str) -> Path:
    return settings.sessions_dir.absolute() / session_id


@_in_thread
def stored_epoch(settings: Settings, session_id: str) -> int:
    """Return the highest epoch that has opened a session's directory; 0 if it is new or cannot be read."""
    database = directory(settings, session_id) / DATABASE
    if not database.is_file():
        return 0
    try:
        with contextlib.closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=1)) as opened:
            row = opened.execute("SELECT value FROM meta WHERE name = 'epoch'").fetchone()
    except sqlite3.Error as error:  # the worker itself will say what is wrong with it
        log.warning("credentials.epoch_unreadable", session=session_id, error=str(error))
        return 0
    return int(row[0]) if row else 0


def seals(settings: Settings) -> list[tuple[str, str]]:
    """Return the session and the id of the key ('' if unknown) of all sealed credentials, those in the trash too."""
    databases = [*settings.sessions_dir.glob(f"*/{DATABASE}"), *_trash(settings).glob(f"*/{DATABASE}")]
    found = [_meta(path) for path in sorted(databases)]
    return [(str(meta.get("session", "")), str(meta.get("key", ""))) for meta in found if meta.get("sealed")]


def _meta(database: Path) -> dict[str, object]:
    try:
        with contextlib.closing(
            sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True, timeout=1)
        ) as opened:
            return dict(opened.execute("SELECT name, value FROM meta").fetchall())
    except sqlite3.Error:
        return {}


@_in_thread
def linked_sessions(settings: Settings) -> list[str]:
    """Return the sessions that have credentials on disk."""
    return [found.parent.name for found in sorted(settings.sessions_dir.glob(f"*/{DATABASE}"))]


def _trash(settings: Settings) -> Path:
    return settings.sessions_dir.absolute() / TRASH


@_in_thread
def discard(settings: Settings, session_id: str, now_ms: int, *, phone: str, label: str, why: str) -> None:
    """Move a session's credentials to the trash, if it has any. Its worker must not run."""
    source = directory(settings, session_id)
    if not source.is_dir() or not any(source.iterdir()):
        return
    _trash(settings).mkdir(mode=0o700, parents=True, exist_ok=True)
    (source / NOTE).write_text(json.dumps({"phone": phone, "label": label, "why": why}), "utf-8")
    source.rename(_trash(settings) / f"{session_id}-{now_ms}")
    log.info("credentials.discarded", session=session_id, why=why)


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
    noted = {field: str(note.get(field, "")) for field in ("phone", "label", "why")}
    return TrashedCredentials(path.name, name["session"], int(name["at"]), **noted)


def find(settings: Settings, trash_id: str) -> TrashedCredentials:
    for each in list_trash(settings):
        if each.id == trash_id:
            return each
    text = f"There is nothing in the trash with the id {trash_id}. GET /api/v1/trash lists it."
    raise Refused("NOT_IN_TRASH", text, 404)


def require_none(settings: Settings, session_id: str) -> None:
    place = directory(settings, session_id)
    if place.exists() and not (place.is_dir() and not any(place.iterdir())):
        raise Refused("HAS_CREDENTIALS", f"Session {session_id} has credentials. Log it out or delete it first.", 409)


@_in_thread
def restore(settings: Settings, trash_id: str, session_id: str) -> None:
    """Move credentials from the trash to a session that has none. Its worker must not run."""
    find(settings, trash_id)
    require_none(settings, session_id)
    target = directory(settings, session_id)
    if target.is_dir():
        target.rmdir()
    (_trash(settings) / trash_id).rename(target)
    (target / NOTE).unlink(missing_ok=True)


async def purge(context: Context) -> float:
    """Delete what has been in the trash for longer than TRASH_DAYS. Return the seconds until the next time."""
    settings, now_ms = context.settings, await context.scripts.now_ms()
    for each in list_trash(settings):
        if each.at_ms <= now_ms - settings.trash_days * _DAY_MS:
            await asyncio.to_thread(shutil.rmtree, _trash(settings) / each.id, ignore_errors=True)
            log.info("credentials.purged", session=each.session_id)
    return _PURGE_EVERY_S
