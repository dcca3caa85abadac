"""A process that makes a backup or carries a restore out, and dies at a line of Python that it executes."""

import asyncio
import sys
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from pydantic import SecretStr

from tests.archive.crash import Fuse
from tests.orchestrator.fakes import API_KEY, FakeRunner
from wa_orchestrator.context import Context, make_context
from wa_orchestrator.logs import configure
from wa_orchestrator.orchestrator import service
from wa_orchestrator.orchestrator.backups import backup_files, prepared_restore
from wa_orchestrator.orchestrator.backups.prepared_restore import Plan
from wa_orchestrator.orchestrator.backups.sent_journal import SentJournal
from wa_orchestrator.orchestrator.backups.service import BackupService
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import records
from wa_orchestrator.store.backups import runs
from wa_orchestrator.store.engine.line_client import LineClient


def settings_of(home: Path) -> Settings:
    """Return the settings of an installation in this directory."""
    secret = SecretStr("whsec_Tm90IGEgcmVhbCBzZWNyZXQsIGZvciB0ZXN0cw==")
    return Settings(
        api_key=SecretStr(API_KEY), webhook_secret=secret, data_dir=home, max_backups=3, restart_interval_ms=0
    )


async def work(redis_url: str, home: Path, backup_id: str, chosen: Sequence[str], fuse: Fuse) -> None:
    """Make a backup; with `backup_id` restore that one, unless a restore is decided already: then finish it.

    Without `chosen` sessions everything is restored.
    """
    redis = LineClient.from_url(redis_url, decode_responses=True)
    context = make_context(settings_of(home), redis)
    control = service.assemble(context, FakeRunner())
    backups = BackupService(context, control.pool, SentJournal(context))
    await context.scripts.load()
    await context.archive.create()
    await control.lease.step()
    threading.settrace(fuse.trace)
    sys.settrace(fuse.trace)
    # A coroutine that runs already is not traced: what it calls from here on is.
    if not backup_id:
        await runs.request(context.scripts, "test")
    elif not any(prepared_restore.decided(context.settings)):
        await _decide(context, backup_id, chosen)
    await backups.step()
    sys.settrace(None)
    await context.archive.close()
    await redis.aclose()


async def _decide(context: Context, backup_id: str, chosen: Sequence[str]) -> None:
    """Check a backup and decide its restore, as the route does."""
    settings = context.settings
    staged = await asyncio.to_thread(prepared_restore.stage, settings, backup_files.find(settings, backup_id), None)
    changes = prepared_restore.compare(staged, await records.sessions(context.scripts), chosen or None)
    now, restored = await context.scripts.now_ms(), (*changes.returns, *changes.goes_back)
    plan_id, cursor = prepared_restore.plan_id(staged), staged.manifest.cursor
    plan = Plan(plan_id, backup_id, not chosen, restored, "test", now, cursor)
    await asyncio.to_thread(prepared_restore.commit, staged, plan)


def run(redis_url: str, home: Path, backup_id: str, chosen: Sequence[str], dies_at: int, executed: Connection) -> None:
    """Work to the end, or die at this line; 0 lives. Sends how many lines were executed."""
    configure("error")
    fuse = Fuse(dies_at)
    asyncio.run(work(redis_url, home, backup_id, chosen, fuse))
    executed.send(fuse.executed)
