"""Makes a backup: copies of all credentials, then the state of Redis, written, read back whole, and only then kept.

Credentials come first and Redis last. So an incoming message that a worker has reported is in Redis or still in its
copy (reported again, and taken once), and a message that was sent is known as sent.
"""

import asyncio
import contextlib
import importlib.metadata
import shutil
import sqlite3
import zipfile
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.stream_events import BackupEnded, EventType
from wa_orchestrator.errors import OrchestratorError, Unavailable
from wa_orchestrator.orchestrator.backups import archive_reader, archive_writer, backup_files, second_copies
from wa_orchestrator.orchestrator.backups import manifest as manifests
from wa_orchestrator.orchestrator.backups.backup_files import BackupNote
from wa_orchestrator.orchestrator.backups.manifest import Manifest, SavedSession
from wa_orchestrator.orchestrator.backups.session_copies import SessionCopies
from wa_orchestrator.orchestrator.sessions import credential_files
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import records
from wa_orchestrator.store.backups import runs, state_dump
from wa_orchestrator.store.backups.runs import EndedRun, Run
from wa_orchestrator.store.errors import RedisError
from wa_orchestrator.store.events import event_stream

_VERSION: Final = importlib.metadata.version("wa-orchestrator")
_RENEW_S: Final = runs.LEASE_MS / 4000
#: As the file is called in DATA_DIR.
_SECRETS_FILE: Final = "secrets.json"
#: What may happen to a backup or a restore.
FAILURES: Final = (OrchestratorError, RedisError, OSError, sqlite3.Error, zipfile.BadZipFile)

log = structlog.get_logger(__name__)


async def exclusively(context: Context, owner: str, work: Callable[[], Coroutine[Any, Any, object]]) -> bool:
    """Do `work` while holding the right to back up or restore; False if another has it. Losing it ends the work."""
    holding = await runs.acquire(context.scripts, owner)
    if holding is None:
        return False
    task = asyncio.create_task(work())
    try:
        while not task.done():
            await asyncio.wait([task], timeout=_RENEW_S)
            with contextlib.suppress(RedisError, OSError):
                await runs.keep_alive(context.scripts)
                if not task.done() and await runs.acquire(context.scripts, owner) is None:
                    task.cancel()
        if task.cancelled():
            raise Unavailable("LEASE_LOST", "Another server makes backups now.")
        task.result()
        return True
    finally:
        task.cancel()
        await asyncio.wait([task])
        with contextlib.suppress(RedisError, OSError):
            await runs.release(context.scripts, holding)


class BackupMaker:
    """Makes one backup at a time. Only the leader may use it, while it holds the right (`exclusively`)."""

    def __init__(self, context: Context, copies: SessionCopies) -> None:
        self._context = context
        self._copies = copies

    @property
    def _settings(self) -> Settings:
        return self._context.settings

    async def make(self, by: str) -> BackupNote | None:
        """Make a backup, or none at all: then it is reported and older ones stay. Never raises for what may happen."""
        scripts, settings = self._context.scripts, self._settings
        began_at = await scripts.now_ms()
        local = datetime.fromtimestamp(began_at / 1000, tz=ZoneInfo(settings.timezone))
        run = Run("backup", "", "sessions", 0, 0, "", by, began_at)
        work: Path | None = None
        try:
            settings.backups_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            await asyncio.to_thread(backup_files.remove_unfinished, settings)
            run = replace(run, id=await asyncio.to_thread(backup_files.new_id, settings, local))
            work = settings.backups_dir / f"{backup_files.UNFINISHED}-{run.id}"
            work.mkdir(mode=0o700)
            note = await self._make(run, work)
        except FAILURES as error:
            await self._failed(run, error)
            return None
        finally:
            if work is not None:
                await asyncio.to_thread(shutil.rmtree, work, ignore_errors=True)
        await self._done(run, note)
        return note

    async def _make(self, run: Run, work: Path) -> BackupNote:
        files = work / "files"
        saved = await self._copy_sessions(run, files)
        left_out = await self._left_out(saved)
        run = replace(run, done=run.total, total=len(saved), phase="redis")
        await runs.report(self._context.scripts, replace(run, done=len(saved)))
        cursor = await event_stream.last_cursor(self._context.scripts)
        await self._write_state(files / manifests.STATE)
        await self._copy_history(replace(run, done=len(saved), phase="history"), files / manifests.HISTORY)
        await runs.report(self._context.scripts, replace(run, done=len(saved), phase="writing"))
        return await asyncio.to_thread(self._write, run, work, saved, left_out, cursor)

    async def _copy_sessions(self, run: Run, files: Path) -> list[SavedSession]:
        """Copy all sessions. One that was deleted meanwhile is left out."""
        every = [session.id for session in await records.sessions(self._context.scripts)]
        saved: list[SavedSession] = []
        for number, session_id in enumerate(every):
            await runs.report(self._context.scripts, replace(run, done=number, total=len(every), session=session_id))
            try:
                copy = await self._copies.take(session_id, files / manifests.auth_db(session_id))
            except Unavailable:
                if await records.session(self._context.scripts, session_id) is not None:
                    raise
                copy = None
            if copy is not None:
                saved.append(copy)
        return saved

    async def _left_out(self, saved: Sequence[SavedSession]) -> tuple[str, ...]:
        """Return the sessions that are linked, or wait for their first start with credentials, and are in no copy."""
        copied = {session.id for session in saved}
        others = [each for each in await records.sessions(self._context.scripts) if each.id not in copied]
        return tuple(
            each.id
            for each in others
            if each.first_connected_at or each.restore or credential_files.is_brought_in(self._settings, each.id)
        )

    async def _write_state(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            async for line in state_dump.read(self._context.scripts):
                file.write(f"{line.encode()}\n")

    async def _copy_history(self, run: Run, target: Path) -> None:
        """Copy the history on disk, after Redis: what moves there meanwhile is in both copies, and never in neither."""
        if self._settings.backup_history:
            await runs.report(self._context.scripts, run)
            target.parent.mkdir(mode=0o700)
            await self._context.archive.copy_to(target)

    def _write(
        self, run: Run, work: Path, saved: Sequence[SavedSession], left_out: tuple[str, ...], cursor: str
    ) -> BackupNote:
        """Write the archive, read it back whole, and give it its name."""
        settings, files = self._settings, work / "files"
        recipient = settings.backup_recipient
        names = [manifests.STATE, *(session.file for session in saved)]
        if (files / manifests.HISTORY).is_file():
            names.append(manifests.HISTORY)
        secrets = settings.data_dir / _SECRETS_FILE
        if recipient and secrets.is_file():  # only an encrypted archive may hold them
            shutil.copyfile(secrets, files / manifests.SECRETS)
            names.append(manifests.SECRETS)
        described = archive_writer.describe(files, names)
        manifest = Manifest(
            _VERSION, run.began_at, cursor, tuple(saved), described, manifests.key_fingerprint(settings)
        )
        plain = work / "archive.zip"
        archive_writer.write(files, manifest, plain)
        finished, identity = plain, None
        if recipient:
            finished = work / "archive.zip.age"
            identity = archive_writer.encrypt(plain, finished, recipient)
            plain.unlink()
            archive_reader.decrypt(finished, plain, identity)
        shutil.rmtree(files)
        if archive_reader.unpack(plain, work / "read-back") != manifest:
            raise manifests.damaged("The archive does not read back as it was written.")
        finished.chmod(0o600)
        note = BackupNote(
            run.id,
            f"{run.id}.zip{'.age' if recipient else ''}",
            finished.stat().st_size,
            run.began_at,
            _VERSION,
            tuple(session.id for session in saved),
            bool(recipient),
            archive_writer.digest_of(finished),
            verified_at=run.began_at,
            has_secrets=manifests.SECRETS in names,
            needs_auth_key=manifest.is_sealed and manifests.SECRETS not in names,
            cursor=cursor,
            has_history=manifests.HISTORY in names,
            left_out=left_out,
        )
        backup_files.publish(settings, finished, note)
        return note

    async def _done(self, run: Run, note: BackupNote) -> None:
        scripts = self._context.scripts
        note = await self._copy_elsewhere(run, note)
        await asyncio.to_thread(backup_files.prune, self._settings.backups_dir, self._settings.max_backups)
        ended = EndedRun("backup", note.id, run.began_at, await scripts.now_ms(), len(note.sessions), run.by)
        await runs.end(scripts, ended)
        await event_stream.emit(
            scripts, EventType.BACKUP_DONE, BackupEnded(note.id, len(note.sessions), bytes=note.bytes)
        )
        log.info("backup.done", backup=note.id, sessions=len(note.sessions), bytes=note.bytes)

    async def _copy_elsewhere(self, run: Run, note: BackupNote) -> BackupNote:
        """Make the second copies. One that cannot be made is reported; the backup here, and the other copy, stay."""
        copies = second_copies.places(self._settings)
        if not copies:
            return note
        await runs.report(self._context.scripts, replace(run, done=len(note.sessions), phase="copying"))
        source, failed = backup_files.path_of(self._settings, note), False
        for place, copy in copies.items():
            try:
                await asyncio.to_thread(copy, source, note.sha256, self._settings.max_backups)
            except OSError as error:
                failed = True
                log.error("backup.copy_failed", backup=note.id, place=place, error=str(error))
        await runs.set_uncopied(self._context.scripts, note.id if failed else "")
        if failed:
            payload = BackupEnded(note.id, len(note.sessions), reason="COPY_FAILED")
            await event_stream.emit(self._context.scripts, EventType.BACKUP_COPY_FAILED, payload)
            return note
        note = replace(note, copied=True)
        await asyncio.to_thread(backup_files.write_note, self._settings, note)
        return note

    async def _failed(self, run: Run, error: Exception) -> None:
        code = code_of(error)
        log.error("backup.failed", backup=run.id, code=code, error=str(error))
        scripts = self._context.scripts
        ended = EndedRun("backup", run.id, run.began_at, await scripts.now_ms(), 0, run.by, code, str(error)[:300])
        await runs.end(scripts, ended)
        await event_stream.emit(scripts, EventType.BACKUP_FAILED, BackupEnded(run.id, 0, reason=code))


def code_of(error: Exception) -> str:
    """Return the code of one of the failures."""
    if isinstance(error, OrchestratorError):
        return error.code
    if isinstance(error, OSError) and error.errno in (28, 122):  # no space, over quota
        return "DISK_FULL"
    return "REDIS_UNAVAILABLE" if isinstance(error, RedisError) else "FILES_UNAVAILABLE"
