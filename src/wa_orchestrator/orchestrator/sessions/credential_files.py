"""Credential files: one directory per session, and a trash from which they can be restored for TRASH_DAYS."""

import asyncio
import json
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions import baileys_account
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.sessions import worker_owned_files
from wa_orchestrator.settings import Settings

TRASH = ".trash"
NOTE = "trash.json"
#: The worker's store, in the directory of its session.
DATABASE = "auth.db"
#: What the server had stored of a session that last ran elsewhere, in the trash.
SERVER_COPY = "server.copy"
_NAME = re.compile(r"(?P<session>[A-Za-z0-9_-]{1,64})-(?P<at>\d{10,16})")
#: What a store says of itself: its session, its epoch, its key.
_MOST_FACTS = 100
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
        with worker_owned_files.store(database) as opened:
            row = opened.execute("SELECT value FROM meta WHERE name = 'epoch'").fetchone()
        return int(row[0]) if row else 0
    except (sqlite3.Error, ValueError, TypeError) as error:  # the worker itself will say what is wrong with it
        log.warning("credentials.epoch_unreadable", session=session_id, error=str(error))
        return 0


def seals(settings: Settings) -> list[tuple[str, str]]:
    """Return the session and the id of the key ('' if unknown) of all sealed credentials, those in the trash too."""
    databases = [*settings.sessions_dir.glob(f"*/{DATABASE}"), *_trash(settings).glob(f"*/{DATABASE}")]
    found = [_meta(path) for path in sorted(databases)]
    return [(str(meta.get("session", "")), str(meta.get("key", ""))) for meta in found if meta.get("sealed")]


def _meta(database: Path) -> dict[str, object]:
    try:
        with worker_owned_files.store(database) as opened:
            return dict(opened.execute("SELECT name, value FROM meta").fetchmany(_MOST_FACTS))
    except sqlite3.Error:
        return {}


@_in_thread
def linked_sessions(settings: Settings) -> list[str]:
    """Return the sessions that have credentials on disk."""
    return [found.parent.name for found in sorted(settings.sessions_dir.glob(f"*/{DATABASE}"))]


def _trash(settings: Settings) -> Path:
    return settings.sessions_dir.absolute() / TRASH


@_in_thread
def keep_copy(settings: Settings, session_id: str, content: bytes) -> None:
    """Put the server's copy into a session's directory: it goes to the trash, and comes back from there, with it."""
    place = directory(settings, session_id)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = place / f".{SERVER_COPY}"
    worker_owned_files.remove(draft)
    _write_whole(draft, content)
    if (place / SERVER_COPY).is_dir():
        worker_owned_files.remove(place / SERVER_COPY)
    draft.rename(place / SERVER_COPY)


@_in_thread
def trashed_copy(settings: Settings, trash_id: str) -> bytes | None:
    """Return the server's copy that is in the trash; None if the directory there has everything."""
    file = _trash(settings) / trash_id / SERVER_COPY
    return worker_owned_files.read(file) if worker_owned_files.is_file(file) else None


def trashed_copies(settings: Settings) -> list[tuple[str, bytes]]:
    """Return the server's copies in the trash, each with its session."""
    found = [(each.session_id, _trash(settings) / each.id / SERVER_COPY) for each in list_trash(settings)]
    return [(name, worker_owned_files.read(file)) for name, file in found if worker_owned_files.is_file(file)]


def _write_whole(path: Path, content: bytes) -> None:
    """Write a new file that only we may read, and wait until the disk has it."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@_in_thread
def discard(settings: Settings, session_id: str, now_ms: int, *, phone: str, label: str, why: str) -> None:
    """Move a session's credentials to the trash, if it has any. Its worker must not run."""
    source = directory(settings, session_id)
    if not source.is_dir() or not any(source.iterdir()):
        return
    _trash(settings).mkdir(mode=0o700, parents=True, exist_ok=True)
    worker_owned_files.remove(source / NOTE)
    _write_whole(source / NOTE, json.dumps({"phone": phone, "label": label, "why": why}).encode())
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
        note = json.loads(worker_owned_files.read(path / NOTE))
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
    for name in (NOTE, SERVER_COPY):
        worker_owned_files.remove(target / name)


@_in_thread
def bring_in(
    settings: Settings, session_id: str, now_ms: int, files: Mapping[str, str], *, phone: str, label: str
) -> str:
    """Write credentials of another program into the trash, from where a new session gets them. Return their id there.

    They get their name when they are whole: a crash leaves nothing that could be restored.
    """
    trash_id = f"{session_id}-{now_ms}"
    draft = _trash(settings) / f".{trash_id}"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=0o700, parents=True)
    note = {NOTE: json.dumps({"phone": phone, "label": label, "why": "imported"})}
    for name, content in {**files, **note}.items():
        _write_whole(draft / name, content.encode())
    draft.rename(_trash(settings) / trash_id)
    log.info("credentials.imported", session=session_id)
    return trash_id


def is_brought_in(settings: Settings, session_id: str) -> bool:
    """Whether a session has credentials of another program, of which its worker has not made a store yet."""
    place = directory(settings, session_id)
    return (place / baileys_account.CREDENTIALS).is_file() and not (place / DATABASE).is_file()


def waiting_place(settings: Settings, session_id: str, trash_id: str) -> Path | None:
    """Return where the credentials are with which a worker will start for the first time; None if one has.

    `trash_id` names those that the session gets from the trash.
    """
    place = _trash(settings) / trash_id
    if _NAME.fullmatch(trash_id) and place.is_dir():
        return place
    return directory(settings, session_id) if is_brought_in(settings, session_id) else None


def brought_in(place: Path) -> dict[str, str]:
    """Return the files of another program in a directory."""
    names = [path.name for path in place.iterdir() if path.suffix == ".json" and path.name != NOTE]
    return {name: worker_owned_files.read(place / name).decode() for name in names}


def write_brought_in(place: Path, files: Mapping[str, str]) -> None:
    """Write files of another program into a directory that nobody uses yet. May be repeated."""
    for name, content in files.items():
        worker_owned_files.remove(place / name)
        _write_whole(place / name, content.encode())


@_in_thread
def forget(settings: Settings, trash_id: str) -> None:
    """Delete what was brought in for a session that was not created."""
    shutil.rmtree(_trash(settings) / trash_id, ignore_errors=True)


async def purge(context: Context) -> float:
    """Delete what has been in the trash for longer than TRASH_DAYS. Return the seconds until the next time."""
    settings, now_ms = context.settings, await context.scripts.now_ms()
    for each in list_trash(settings):
        if each.at_ms <= now_ms - settings.trash_days * _DAY_MS:
            await asyncio.to_thread(shutil.rmtree, _trash(settings) / each.id, ignore_errors=True)
            log.info("credentials.purged", session=each.session_id)
    return _PURGE_EVERY_S
