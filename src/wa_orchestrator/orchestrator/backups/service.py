"""Loop of backups: finishes decided restores, makes the backups that are due or asked for."""

import asyncio
import contextlib
import os
import secrets
from collections.abc import Callable, Coroutine
from datetime import datetime, time
from functools import partial
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from wa_orchestrator.context import Context
from wa_orchestrator.domain import backup_schedule
from wa_orchestrator.domain.sessions.session import Reason, State
from wa_orchestrator.orchestrator.backups import backup_files, prepared_restore, session_copies
from wa_orchestrator.orchestrator.backups.backup import FAILURES, BackupMaker, code_of, exclusively
from wa_orchestrator.orchestrator.backups.prepared_restore import Plan
from wa_orchestrator.orchestrator.backups.restore import Restorer
from wa_orchestrator.orchestrator.backups.sent_journal import SentJournal
from wa_orchestrator.orchestrator.backups.session_copies import SessionCopies
from wa_orchestrator.orchestrator.workers.pool import WorkerPool
from wa_orchestrator.store import records
from wa_orchestrator.store.backups import runs
from wa_orchestrator.store.errors import RedisError

_EVERY_S: Final = 1.0
#: Who made a backup that nobody asked for.
SCHEDULE: Final = "schedule"


class BackupService:
    """Makes backups and restores, one at a time. Steps only while this process leads."""

    def __init__(self, context: Context, pool: WorkerPool, journal: SentJournal) -> None:
        self._context = context
        self._journal = journal
        self._maker = BackupMaker(context, SessionCopies(context, pool))
        self._restorer = Restorer(context, pool)
        self._owner = f"{os.getpid()}-{secrets.token_hex(4)}"
        self._leads_newly = True

    def standby(self) -> None:
        self._leads_newly = True

    async def step(self) -> float:
        """Do what is due now."""
        for directory, plan in await asyncio.to_thread(lambda: list(prepared_restore.decided(self._context.settings))):
            await self._restore(directory, plan)
        if self._leads_newly:  # a killed server may have left sessions at rest
            await self._resume_sessions()
            self._leads_newly = False
        if by := await runs.requested(self._context.scripts):
            await self._do(lambda: self._make(by))
        else:
            await self._make_when_due()
        return _EVERY_S

    async def _do(self, work: Callable[[], Coroutine[Any, Any, object]]) -> bool:
        return await exclusively(self._context, self._owner, work)

    async def _restore(self, directory: Path, plan: Plan) -> None:
        """Carry a decided restore out. What stops it is shown beside it; the next round tries again."""
        try:
            await self._do(partial(self._restorer.carry_out, directory, plan))
        except FAILURES as error:
            with contextlib.suppress(RedisError, OSError):
                await runs.note_trouble(self._context.scripts, code_of(error))
            raise

    async def _make(self, by: str) -> bool:
        # First, so that a request that kills the server is not repeated for ever.
        await runs.answer_request(self._context.scripts)
        if await self._maker.make(by) is None:
            return False
        kept = await asyncio.to_thread(backup_files.listed, self._context.settings)
        if kept and kept[-1].cursor:
            self._journal.forget_before(kept[-1].cursor)
        return True

    async def _make_when_due(self) -> None:
        scripts, settings = self._context.scripts, self._context.settings
        now = datetime.fromtimestamp(await scripts.now_ms() / 1000, tz=ZoneInfo(settings.timezone))
        at = time.fromisoformat(settings.backup_time)
        today = backup_schedule.scheduled_day(now, at)
        last = await runs.last_day(scripts)
        if last is None:  # a new installation has nothing to make up for
            await runs.set_last_day(scripts, today)
        elif backup_schedule.is_due(now, at, last) and await runs.may_try(scripts):
            await self._do(lambda: self._make_scheduled(today))

    async def _make_scheduled(self, day: str) -> None:
        scripts = self._context.scripts
        await runs.wait_before_retry(scripts)  # before: a backup that kills the server is not tried in a circle
        if await self._make(SCHEDULE):
            await runs.set_last_day(scripts, day)

    async def _resume_sessions(self) -> None:
        for session in await records.sessions(self._context.scripts):
            if session.status == State.STOPPED and session.reason in (Reason.BACKUP, Reason.RESTORE):
                await session_copies.resume(self._context, session.id)
