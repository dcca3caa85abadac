"""Carries out a decided restore. Every step may be repeated: after a crash the leader begins again and finishes."""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions.restore_outcome import RestoreOutcome, outcome_of
from wa_orchestrator.domain.sessions.session import WANTS_WORKER, Event, Reason, State
from wa_orchestrator.domain.stream_events import BackupEnded, EventType
from wa_orchestrator.orchestrator.backups import archive_reader, prepared_restore, session_copies
from wa_orchestrator.orchestrator.backups import manifest as manifests
from wa_orchestrator.orchestrator.backups.prepared_restore import Plan, SavedRecords
from wa_orchestrator.orchestrator.backups.restored_campaigns import settle_campaigns
from wa_orchestrator.orchestrator.backups.restored_messages import HELD, settle_messages
from wa_orchestrator.orchestrator.sessions import credential_files, credential_trash
from wa_orchestrator.orchestrator.workers.pool import WorkerPool
from wa_orchestrator.store import records, sessions
from wa_orchestrator.store.backups import restored_sessions, runs, state_dump
from wa_orchestrator.store.backups.runs import EndedRun, RestoreStage, Run
from wa_orchestrator.store.backups.state_dump import StateLine
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.records import SessionChanges
from wa_orchestrator.store.sessions import slots, stored_credentials

#: Workers of a lost installation may have had later epochs than the backup knows; no new one may equal theirs.
EPOCH_LEAP: Final = 1000

_EVENTS: Final = 1000

log = structlog.get_logger(__name__)


class Restorer:
    """Carries out restores. Only the leader may use it, while it holds the right (`backup.exclusively`)."""

    def __init__(self, context: Context, pool: WorkerPool) -> None:
        self._context = context
        self._pool = pool

    async def carry_out(self, directory: Path, plan: Plan) -> None:
        """Carry a restore out, from wherever it was interrupted."""
        began_at = await self._context.scripts.now_ms()
        log.info("restore.began", backup=plan.backup, sessions=len(plan.sessions), whole=plan.whole)
        run = Run("restore", plan.backup, "restoring", 0, len(plan.sessions), "", plan.by, began_at)
        ended = EndedRun("restore", plan.backup, began_at, began_at, run.total, plan.by)
        stage = await runs.restore_stage(self._context.scripts, plan.id)
        if stage is not RestoreStage.ENDED:
            if not plan.whole:
                ended = replace(ended, outcomes=await self._merge(directory, plan, run))
            elif stage is RestoreStage.LOADED or await state_dump.begin_load(self._context.scripts, plan.id):
                ended = replace(ended, messages=await self._load(directory, plan, run, stage))
                ended = replace(ended, outcomes=dict.fromkeys(plan.sessions, RestoreOutcome.RESTORED))
            else:
                ended = replace(ended, error="NOT_EMPTY")
            await self._end(plan, replace(ended, ended_at=await self._context.scripts.now_ms()))
        await asyncio.to_thread(prepared_restore.finish, directory)

    async def _end(self, plan: Plan, ended: EndedRun) -> None:
        incomplete = len(ended.incomplete)
        kind = EventType.RESTORE_INCOMPLETE if incomplete else EventType.RESTORE_DONE
        if ended.error:
            kind = EventType.RESTORE_FAILED
        told = BackupEnded(
            plan.backup,
            ended.sessions,
            ended.error or None,
            unknown=ended.messages.get("unknown"),
            held=ended.messages.get(HELD),
            incomplete=incomplete or None,
        )
        await runs.end_restore(self._context.scripts, plan.id, ended, kind, told)
        log.info("restore.ended", backup=plan.backup, error=ended.error, incomplete=incomplete)

    # -- everything, into an empty installation

    async def _load(self, directory: Path, plan: Plan, run: Run, stage: RestoreStage | None) -> Mapping[str, int]:
        if stage is None:
            await self._fill(directory, plan, run)
        scripts = self._context.scripts
        await runs.report(scripts, replace(run, done=run.total, phase="starting"))
        for session in await records.sessions(scripts):
            await session_copies.resume(self._context, session.id)
        return await state_dump.loaded_messages(scripts)

    async def _fill(self, directory: Path, plan: Plan, run: Run) -> None:
        context, files = self._context, directory / prepared_restore.FILES
        for number, session_id in enumerate(plan.sessions):
            await runs.report(context.scripts, replace(run, done=number, session=session_id))
            await self._pool.stop_all(session_id)
            await self._exchange_files(files, session_id, {})
        if await asyncio.to_thread((files / manifests.HISTORY).is_file):
            await context.archive.take_from(files / manifests.HISTORY)
        await state_dump.load(context.scripts, self._resting(files / manifests.STATE))
        await self._copy_events()
        told = await settle_messages(context, plan.cursor)
        await settle_campaigns(context, plan.cursor)
        await state_dump.end_load(context.scripts, plan.id, told)

    async def _copy_events(self) -> None:
        """Copy the restored events to the archive: its own begin with this installation, and readers ask it first."""
        cursor = "0"
        while entries := await event_stream.read(self._context.scripts, after=cursor, most=_EVENTS):
            await self._context.archive.put_events(entries)
            cursor = entries[-1].cursor

    def _resting(self, path: Path) -> Iterator[StateLine]:
        """Yield the state with every session at rest that ran: it is started when everything is in place."""
        for line in archive_reader.lines_of(path):
            if line.kind == "hash" and state_dump.session_id_of(line.key):
                fields = _at_rest(line.pairs)
                yield replace(line, values=[part for pair in fields.items() for part in pair])
            else:
                yield line

    # -- some sessions, into an installation in use

    async def _merge(self, directory: Path, plan: Plan, run: Run) -> Mapping[str, RestoreOutcome]:
        """Restore one session after the other; those that were done before a crash stay as they are."""
        scripts, files = self._context.scripts, directory / prepared_restore.FILES
        saved = await asyncio.to_thread(prepared_restore.saved_records, files / manifests.STATE)
        outcomes = await asyncio.to_thread(prepared_restore.noted_outcomes, directory)
        for number, session_id in enumerate(plan.sessions):
            await runs.report(scripts, replace(run, done=number, session=session_id))
            if session_id in outcomes:
                continue
            async with self._pool.lock(session_id):
                outcome = await self._restore_one(files, session_id, saved)
            await session_copies.resume(self._context, session_id)
            await runs.tell_outcome(scripts, plan.backup, session_id, outcome)
            await asyncio.to_thread(prepared_restore.note_outcome, directory, session_id, outcome)
            outcomes[session_id] = outcome
        return outcomes  # queues stay as they are now

    async def _restore_one(self, files: Path, session_id: str, backup: SavedRecords) -> RestoreOutcome:
        context, saved = self._context, backup.sessions[session_id]
        session = await records.session(context.scripts, session_id)
        proxy = await slots.sticky_proxy(context.scripts, saved.get("phone", "")) or saved.get("proxy", "")
        if session is not None:
            await session_copies.stop(context, self._pool, session, Event.RESTORE_BEGAN)
        else:
            await self._pool.stop_all(session_id)
            # First, because it may be refused: then its credentials have no place here.
            if isinstance(await self._record(session_id, saved, proxy, backup.proxies), sessions.PhoneFull):
                return RestoreOutcome.PHONE_FULL
        await self._exchange_files(files, session_id, saved)
        if session is not None and not session.first_connected_at:
            # A logout had ended its trust; these credentials have theirs.
            age = SessionChanges(first_connected_at=int(saved.get("first_connected_at") or 0))
            await sessions.update(context.scripts, session_id, age)
        now = await records.session(context.scripts, session_id)
        return outcome_of(saved_proxy=proxy, proxy=now.proxy if now else proxy)

    async def _record(
        self, session_id: str, saved: Mapping[str, str], proxy: str, proxies: Mapping[str, Mapping[str, str]]
    ) -> restored_sessions.Restored | sessions.Exists | sessions.PhoneFull:
        """Record a session that does not exist, on its phone's proxy: the one of now, else the one of the backup."""
        settings = self._context.settings
        outcome = await restored_sessions.restore(
            self._context.scripts,
            session_id,
            _at_rest(saved),
            proxy=proxy,
            proxy_fields=proxies.get(proxy, {}),
            per_proxy=settings.max_sessions_per_proxy,
            per_phone=settings.max_sessions_per_phone,
        )
        log.info("restore.session_recorded", session=session_id, outcome=str(outcome))
        return outcome

    async def _exchange_files(self, files: Path, session_id: str, saved: Mapping[str, str]) -> None:
        """Put the credentials of the backup in place; those of now go to the trash. No worker may run."""
        source = files / Path(manifests.auth_db(session_id)).parent
        if not await asyncio.to_thread(source.is_dir):
            return  # done before a crash
        await credential_trash.discard(
            self._context, session_id, phone=saved.get("phone", ""), label=saved.get("label", ""), why="restored"
        )
        await self._exchange_stored(source / manifests.SERVER_FILE, session_id)
        await asyncio.to_thread(_unfold, source)
        await asyncio.to_thread(_move, source, credential_files.directory(self._context.settings, session_id))

    async def _exchange_stored(self, copy: Path, session_id: str) -> None:
        """Put what followed the worker into Redis, from where the next one gets it; else it has a directory."""
        await stored_credentials.forget(self._context.scripts, session_id)
        if await asyncio.to_thread(copy.is_file):
            stored = await asyncio.to_thread(archive_reader.server_copy, copy)
            await stored_credentials.put_back(self._context.scripts, session_id, stored)


def _unfold(source: Path) -> None:
    """Write what a session had brought from another program as its worker reads it; leave what Redis has."""
    (source / manifests.SERVER_FILE).unlink(missing_ok=True)
    if (document := source / manifests.IMPORTED_FILE).is_file():
        credential_files.write_brought_in(source, archive_reader.imported_files(document))
        document.unlink()


def _move(source: Path, target: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        target.rmdir()  # what an empty trashing left
    source.rename(target)


def _at_rest(fields: Mapping[str, str]) -> dict[str, str]:
    """Return a session's record for a session that is about to be started, if it ran; without what ended with its
    worker."""
    rested = dict(fields) | {"epoch": str(int(fields.get("epoch") or 0) + EPOCH_LEAP), "restart_epoch": ""}
    if fields.get("status") in WANTS_WORKER:
        rested |= {"status": State.STOPPED.value, "reason": Reason.RESTORE.value, "standing": ""}
    if fields.get("restore"):  # what it was to get from the trash is in its directory; its worker reports this phone
        rested |= {"restore": "", "named_phone": fields.get("phone", "")}
    return rested
