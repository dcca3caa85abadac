"""Carries out a decided restore. Every step may be repeated: after a crash the leader begins again and finishes."""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions.session import WANTS_WORKER, Event, Reason, State
from wa_orchestrator.domain.stream_events import BackupEnded, EventType
from wa_orchestrator.orchestrator.backups import archive_reader, prepared_restore, session_copies
from wa_orchestrator.orchestrator.backups import manifest as manifests
from wa_orchestrator.orchestrator.backups.prepared_restore import Plan
from wa_orchestrator.orchestrator.backups.restored_campaigns import settle_campaigns
from wa_orchestrator.orchestrator.backups.restored_messages import HELD, settle_messages
from wa_orchestrator.orchestrator.sessions import credential_files
from wa_orchestrator.orchestrator.workers.pool import WorkerPool
from wa_orchestrator.store import records, sessions
from wa_orchestrator.store.backups import restored_sessions, runs, state_dump
from wa_orchestrator.store.backups.runs import EndedRun, Run
from wa_orchestrator.store.backups.state_dump import StateLine
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.records import SessionChanges
from wa_orchestrator.store.sessions import slots, stored_credentials

#: Workers of a lost installation may have had later epochs than the backup knows; no new one may equal theirs.
EPOCH_LEAP: Final = 1000

NOTHING_TOLD: Final[Mapping[str, int]] = {}

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
        if plan.whole and not await state_dump.begin_load(self._context.scripts, plan.id):
            await self._end(directory, plan, began_at, "NOT_EMPTY")
            return
        told = await (self._load if plan.whole else self._merge)(directory, plan, run)
        await self._end(directory, plan, began_at, messages=told)

    async def _end(
        self, directory: Path, plan: Plan, began_at: int, error: str = "", messages: Mapping[str, int] = NOTHING_TOLD
    ) -> None:
        scripts, count = self._context.scripts, len(plan.sessions)
        await asyncio.to_thread(prepared_restore.finish, directory)
        now_ms = await scripts.now_ms()
        ended = EndedRun("restore", plan.backup, began_at, now_ms, count, plan.by, error, messages=dict(messages))
        await runs.end(scripts, ended)
        kind = EventType.RESTORE_FAILED if error else EventType.RESTORE_DONE
        payload = BackupEnded(
            plan.backup, count, error or None, unknown=messages.get("unknown"), held=messages.get(HELD)
        )
        await event_stream.emit(scripts, kind, payload)
        log.info("restore.ended", backup=plan.backup, error=error)

    # -- everything, into an empty installation

    async def _load(self, directory: Path, plan: Plan, run: Run) -> Mapping[str, int]:
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
        await state_dump.end_load(context.scripts)
        await runs.report(context.scripts, replace(run, done=run.total, phase="starting"))
        for session in await records.sessions(context.scripts):
            await session_copies.resume(context, session.id)
        return told

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

    async def _merge(self, directory: Path, plan: Plan, run: Run) -> Mapping[str, int]:
        files = directory / prepared_restore.FILES
        saved, proxies = _saved(files / manifests.STATE)
        for number, session_id in enumerate(plan.sessions):
            await runs.report(self._context.scripts, replace(run, done=number, session=session_id))
            async with self._pool.lock(session_id):
                await self._restore_one(files, session_id, saved[session_id], proxies)
            await session_copies.resume(self._context, session_id)
        return NOTHING_TOLD  # queues stay as they are now

    async def _restore_one(
        self, files: Path, session_id: str, saved: Mapping[str, str], proxies: Mapping[str, Mapping[str, str]]
    ) -> None:
        context = self._context
        session = await records.session(context.scripts, session_id)
        if session is not None:
            await session_copies.stop(context, self._pool, session, Event.RESTORE_BEGAN)
        else:
            await self._pool.stop_all(session_id)
        await self._exchange_files(files, session_id, saved)
        if session is None:
            await self._record(session_id, saved, proxies)
        elif not session.first_connected_at:  # a logout had ended its trust; these credentials have theirs
            age = SessionChanges(first_connected_at=int(saved.get("first_connected_at") or 0))
            await sessions.update(context.scripts, session_id, age)

    async def _record(
        self, session_id: str, saved: Mapping[str, str], proxies: Mapping[str, Mapping[str, str]]
    ) -> None:
        """Record a session that does not exist, on its phone's proxy: the one of now, else the one of the backup."""
        settings = self._context.settings
        sticky = await slots.sticky_proxy(self._context.scripts, saved.get("phone", ""))
        proxy = sticky or saved.get("proxy", "")
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

    async def _exchange_files(self, files: Path, session_id: str, saved: Mapping[str, str]) -> None:
        """Put the credentials of the backup in place; those of now go to the trash. No worker may run."""
        now_ms = await self._context.scripts.now_ms()
        source = files / Path(manifests.auth_db(session_id)).parent
        if not await asyncio.to_thread(source.is_dir):
            return  # done before a crash
        settings = self._context.settings
        await credential_files.discard(
            settings, session_id, now_ms, phone=saved.get("phone", ""), label=saved.get("label", ""), why="restored"
        )
        await stored_credentials.forget(self._context.scripts, session_id)
        await asyncio.to_thread(_move, source, credential_files.directory(settings, session_id))


def _move(source: Path, target: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        target.rmdir()  # what an empty trashing left
    source.rename(target)


def _saved(path: Path) -> tuple[dict[str, dict[str, str]], dict[str, dict[str, str]]]:
    """Return the records of sessions and of proxies in a state."""
    found, proxies = {}, {}
    for line in archive_reader.lines_of(path):
        if line.kind != "hash":
            continue
        if session_id := state_dump.session_id_of(line.key):
            found[session_id] = line.pairs
        elif proxy_id := state_dump.proxy_id_of(line.key):
            proxies[proxy_id] = line.pairs
    return found, proxies


def _at_rest(fields: Mapping[str, str]) -> dict[str, str]:
    """Return a session's record for a session that is about to be started, if it ran; without what ended with its
    worker."""
    rested = dict(fields) | {"epoch": str(int(fields.get("epoch") or 0) + EPOCH_LEAP), "restart_epoch": ""}
    if fields.get("status") in WANTS_WORKER:
        rested |= {"status": State.STOPPED.value, "reason": Reason.RESTORE.value, "standing": ""}
    return rested
