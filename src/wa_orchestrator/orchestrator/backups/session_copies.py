"""Copies one session's credentials: from the server's store, from its running worker, or from its directory."""

import asyncio
import contextlib
import json
import re
import sqlite3
from pathlib import Path
from typing import Final

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions import baileys_account
from wa_orchestrator.domain.sessions.session import Event, Reason, State
from wa_orchestrator.errors import Refused, Unavailable
from wa_orchestrator.orchestrator.backups import archive_reader
from wa_orchestrator.orchestrator.backups.manifest import IMPORTED, IMPORTED_FILE, SERVER, SERVER_FILE, SavedSession
from wa_orchestrator.orchestrator.sessions import credential_files, session_start, transitions, worker_owned_files
from wa_orchestrator.orchestrator.workers.pool import STOP_GRACE_S, WorkerPool
from wa_orchestrator.store import records
from wa_orchestrator.store.records import Session
from wa_orchestrator.store.sessions import commands, control_plane, stored_credentials

#: A worker copies a store of some megabytes in a few hundred milliseconds; a busy one may be in the middle of a send.
ANSWER_S: Final = 20.0
#: A store of gigabytes takes less.
_COPIED_WITHIN_S: Final = 300.0
_COPY: Final = re.compile(r"copy-[\w-]{1,64}\.db", re.ASCII)

log = structlog.get_logger(__name__)


class SessionCopies:
    """Copies credentials without stopping anyone where that is possible. Only the leader may use it."""

    def __init__(self, context: Context, pool: WorkerPool) -> None:
        self._context = context
        self._pool = pool

    async def take(self, session_id: str, target: Path) -> SavedSession | None:
        """Copy a session's credentials to `target` and check the copy; None if it has none that can be used.

        Raises `Unavailable` if neither its worker nor its directory gives a whole copy.
        """
        settings = self._context.settings
        directory = credential_files.directory(settings, session_id)
        async with self._pool.lock(session_id):  # no worker makes a store of them meanwhile
            session = await records.session(self._context.scripts, session_id)
            waiting = credential_files.waiting_place(settings, session_id, session.restore if session else "")
            if waiting is not None:
                return await asyncio.to_thread(_copy_waiting, waiting, session_id, target)
        if settings.credentials == "server" and (saved := await self._from_stream(session_id, target)):
            return saved
        if not (directory / credential_files.DATABASE).is_file():
            return None
        how = (
            "hot" if await self._from_worker(session_id, directory, target) else await self._at_rest(session_id, target)
        )
        return SavedSession(session_id, how, await asyncio.to_thread(archive_reader.check_store, target, session_id))

    async def _from_stream(self, session_id: str, target: Path) -> SavedSession | None:
        """Copy what the session's worker has stored here, without asking it: it tells nobody of anything before.

        Its directory may be on another machine; one that is here may have been left behind.
        """
        stored = await stored_credentials.read(self._context.scripts, session_id)
        if stored is None:
            return None
        file = target.with_name(SERVER_FILE)
        await asyncio.to_thread(_write, file, stored_credentials.pack(stored))
        return SavedSession(session_id, SERVER, sealed=True)

    async def _from_worker(self, session_id: str, directory: Path, target: Path) -> bool:
        if session_id not in self._pool.workers:
            return False
        result = await commands.run(self._context.scripts, session_id, "copy_store", timeout_s=ANSWER_S)
        name = str((result or {}).get("file", ""))
        if not (result or {}).get("ok") or not _COPY.fullmatch(name):
            log.warning("backup.worker_gave_no_copy", session=session_id, code=(result or {}).get("code", "NO_ANSWER"))
            return False
        try:
            await asyncio.to_thread(_fetch, directory / name, target)
        except OSError as error:
            log.warning("backup.copy_not_fetched", session=session_id, error=str(error))
            return False
        return True

    async def _at_rest(self, session_id: str, target: Path) -> str:
        """Copy the directory while no worker can start; one that runs and gives no copy is stopped for this."""
        async with self._pool.lock(session_id):
            session = await records.session(self._context.scripts, session_id)
            runs = any(found.session_id == session_id for found in await self._pool.runner.survey())
            if session is not None and runs:
                log.info("backup.session_stopped", session=session.id)
                await stop(self._context, self._pool, session, Event.BACKUP_BEGAN)
            try:
                source = credential_files.directory(self._context.settings, session_id)
                await asyncio.to_thread(copy_store, source, target)
            except (OSError, sqlite3.Error) as error:
                text = f"The credentials of {session_id} cannot be copied ({error})."
                raise Unavailable("CREDENTIALS_UNREADABLE", text) from error
            finally:
                if session is not None and runs:
                    await resume(self._context, session_id)
        return "stopped" if runs else "directory"


async def stop(context: Context, pool: WorkerPool, session: Session, event: Event) -> None:
    """Stop a session for a backup or a restore, which the event says; raise `Unavailable` if another server leads."""
    await transitions.apply(context, session.id, event)
    if await pool.fence(session) is None:
        raise Unavailable("NOT_LEADER", "Another server leads now.")
    await pool.stop(session.id, STOP_GRACE_S)
    await pool.stop_all(session.id)


async def resume(context: Context, session_id: str) -> None:
    """Start a session that was stopped for a backup or a restore; an operator's stop meanwhile stands, and so does a
    ban."""
    session = await records.session(context.scripts, session_id)
    if session is None or session.status != State.STOPPED or session.reason not in (Reason.BACKUP, Reason.RESTORE):
        return
    may_run = session.wanted == transitions.RUNNING and not session_start.is_banned(session)
    await transitions.apply(context, session_id, Event.START_ASKED if may_run else Event.STOP_ASKED)
    await control_plane.request_attention(context.scripts, session_id)


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.write_bytes(content)


def _fetch(source: Path, target: Path) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    worker_owned_files.copy(source, target)
    source.unlink()


def _copy_waiting(place: Path, session_id: str, target: Path) -> SavedSession | None:
    """Copy credentials with which a worker will start for the first time; None if they cannot be used."""
    if (place / credential_files.DATABASE).is_file():
        try:
            copy_store(place, target)
            return SavedSession(session_id, "directory", archive_reader.check_store(target, session_id))
        except (OSError, sqlite3.Error, Refused) as error:
            log.warning("backup.credentials_unusable", session=session_id, error=str(error))
            target.unlink(missing_ok=True)
            return None
    try:
        files = credential_files.brought_in(place)
        account = baileys_account.read(files)
    except (OSError, UnicodeDecodeError, Refused) as error:
        log.warning("backup.credentials_unusable", session=session_id, error=str(error))
        return None
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    target.with_name(IMPORTED_FILE).write_text(json.dumps(account.files), "utf-8")
    return SavedSession(session_id, IMPORTED, sealed=False)


def copy_store(directory: Path, target: Path) -> None:
    """Copy the store of a directory in which no worker runs, with what its journal holds, and leave that untouched."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    raw = target.with_name("raw.db")
    try:
        for suffix in ("", "-wal"):
            with contextlib.suppress(FileNotFoundError):
                worker_owned_files.copy(directory / f"{credential_files.DATABASE}{suffix}", Path(f"{raw}{suffix}"))
        with contextlib.closing(sqlite3.connect(raw)) as opened:
            worker_owned_files.limit(opened, _COPIED_WITHIN_S)
            opened.execute("VACUUM INTO ?", (str(target),))
    finally:
        for path in target.parent.glob("raw.db*"):
            path.unlink()
