"""Assembles the control plane: routes, loops and handlers of worker events."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import structlog
from fastapi import APIRouter

from wa_orchestrator.archive.archiver import Archiver
from wa_orchestrator.context import Context
from wa_orchestrator.domain.jobs import Job
from wa_orchestrator.domain.sessions.reconciliation import FoundWorker
from wa_orchestrator.domain.sessions.session import Event
from wa_orchestrator.loop import Loop, Runnable
from wa_orchestrator.orchestrator.api.access.keys import KeyRoutes
from wa_orchestrator.orchestrator.api.access.people import PeopleRoutes
from wa_orchestrator.orchestrator.api.admin import AdminRoutes
from wa_orchestrator.orchestrator.api.backups import BackupRoutes
from wa_orchestrator.orchestrator.api.inventory import InventoryRoutes
from wa_orchestrator.orchestrator.api.jobs import JobRoutes
from wa_orchestrator.orchestrator.api.nodes import NodeRoutes
from wa_orchestrator.orchestrator.api.proxies import ProxyRoutes
from wa_orchestrator.orchestrator.api.proxy_changes import ProxyChangeRoutes
from wa_orchestrator.orchestrator.api.sessions.changes import SessionRoutes
from wa_orchestrator.orchestrator.api.sessions.choices import SessionChangeRoutes
from wa_orchestrator.orchestrator.api.sessions.health import NumberHealthRoutes
from wa_orchestrator.orchestrator.api.sessions.imports import SessionImportRoutes
from wa_orchestrator.orchestrator.api.sessions.moves import SessionMoveRoutes
from wa_orchestrator.orchestrator.api.sessions.passkeys import PasskeyRoutes
from wa_orchestrator.orchestrator.api.sessions.reads import SessionReadRoutes
from wa_orchestrator.orchestrator.api.sessions.scan_links import ScanLinkRoutes
from wa_orchestrator.orchestrator.api.workers.events import Handlers, WorkerEventRoutes
from wa_orchestrator.orchestrator.backups.sent_journal import SentJournal
from wa_orchestrator.orchestrator.backups.service import BackupService
from wa_orchestrator.orchestrator.installation_check import check_installation
from wa_orchestrator.orchestrator.job_runs import JobRequests, RecordedStep
from wa_orchestrator.orchestrator.leader_lease import LeaderLease
from wa_orchestrator.orchestrator.messages import health_watch, media_fetch
from wa_orchestrator.orchestrator.messages.media_arrivals import MediaArrivals
from wa_orchestrator.orchestrator.metrics import OrchestratorMetrics
from wa_orchestrator.orchestrator.notifications import daily_summary, lasting_troubles
from wa_orchestrator.orchestrator.proxies import placement
from wa_orchestrator.orchestrator.proxies.health import ProxyHealth
from wa_orchestrator.orchestrator.proxies.monitor import check_all, check_due_proxies
from wa_orchestrator.orchestrator.proxies.socks_check import ProxyCheck
from wa_orchestrator.orchestrator.sessions import (
    ban_end,
    credential_files,
    transitions,
    version_recovery,
    worker_reports,
)
from wa_orchestrator.orchestrator.workers.node_watch import NodeWatch
from wa_orchestrator.orchestrator.workers.pool import WorkerPool
from wa_orchestrator.orchestrator.workers.reconciler import Reconciler
from wa_orchestrator.orchestrator.workers.session_controller import SessionController
from wa_orchestrator.orchestrator.workers.start_queue import StartQueue
from wa_orchestrator.orchestrator.workers.watchdog import ExitWatcher, Watchdog
from wa_orchestrator.runner.contract import Runner

#: How long a stopping server tries to record why its workers end.
RECORD_STOPS_S = 3.0
#: How often it looks for workers that run: once more than there should be any, and again if there was one.
LOOKS_AT_STOP = 3

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Orchestrator:
    """The control plane of one process. Handlers may be added before the routers are used."""

    context: Context
    lease: LeaderLease
    pool: WorkerPool
    proxy_health: ProxyHealth
    handlers: Handlers
    loops: Sequence[Runnable]

    @property
    def routers(self) -> list[APIRouter]:
        return [
            SessionReadRoutes(self.context),
            NumberHealthRoutes(self.context),
            SessionRoutes(self.context, self.proxy_health),
            SessionChangeRoutes(self.context, self.proxy_health),
            SessionImportRoutes(self.context, self.proxy_health),
            PasskeyRoutes(self.context),
            ScanLinkRoutes(self.context),
            ProxyRoutes(self.context, self.proxy_health),
            ProxyChangeRoutes(self.context, self.proxy_health),
            KeyRoutes(self.context),
            PeopleRoutes(self.context),
            AdminRoutes(self.context),
            BackupRoutes(self.context),
            InventoryRoutes(self.context),
            JobRoutes(self.context),
            NodeRoutes(self.context, self.pool),
            SessionMoveRoutes(self.context, self.pool),
        ]

    @property
    def worker_events(self) -> WorkerEventRoutes:
        """The route of workers' events."""
        return WorkerEventRoutes(self.context, self.handlers)

    async def stop_workers(self) -> None:
        """Stop all running workers in parallel, because the server stops. Which sessions should run stays recorded for
        the next start. The lease must have been retired, and the loops have ended.

        Then look once more: a start that was under way when the loops ended may have succeeded since.
        """
        for _ in range(LOOKS_AT_STOP):
            if not (found := await self.pool.runner.survey()):
                return
            await self._stop_workers(found)

    async def _stop_workers(self, found: Sequence[FoundWorker]) -> None:
        # First, so that no message is released to them any more, and the recorded reason is right.
        await self._record_stops([each.session_id for each in found])
        # An error of one must not spare the others; the next server replaces a worker that survives.
        ends = await asyncio.gather(*(self.pool.runner.stop(each.handle) for each in found), return_exceptions=True)
        for each, error in zip(found, ends, strict=True):
            if isinstance(error, BaseException):
                log.error("worker.not_stopped", session=each.session_id, exc_info=error)

    async def _record_stops(self, session_ids: Sequence[str]) -> None:
        """Record why these workers end, for a limited time: they must be stopped even if Redis hangs."""
        applied = (transitions.apply(self.context, each, Event.SERVER_STOPPED) for each in session_ids)
        tasks = [asyncio.create_task(each) for each in applied]
        if not tasks:
            return
        # Not cancelled and awaited: redis-py may swallow a cancellation while it connects.
        done, pending = await asyncio.wait(tasks, timeout=RECORD_STOPS_S)
        for task in pending:
            task.cancel()
        if failed := len(pending) + sum(task.exception() is not None for task in done):
            log.warning("sessions.stop_not_recorded", sessions=failed)


def assemble(context: Context, runner: Runner, checker: ProxyCheck | None = None) -> Orchestrator:
    """Assemble the control plane. Tests pass `checker` instead of the real proxy check."""
    lease = LeaderLease(context)
    pool = WorkerPool(context, lease, runner)
    proxy_health = ProxyHealth(context, lease, checker)
    journal = SentJournal(context)
    backups = BackupService(context, pool, journal)
    archiver = Archiver(context.settings, context.scripts, context.archive)
    by_hand = JobRequests(
        context,
        {
            Job.ARCHIVE: archiver.step,
            Job.PROXY_CHECKS: partial(check_all, context, proxy_health),
            Job.SUMMARY: partial(daily_summary.emit_now, context),
            Job.TRASH: partial(credential_files.purge, context),
            Job.VERSION: partial(version_recovery.step, context),
        },
    )
    monitor = RecordedStep(context, Job.PROXY_CHECKS, partial(check_due_proxies, context, proxy_health))
    purger = RecordedStep(context, Job.TRASH, partial(credential_files.purge, context))
    versions = RecordedStep(context, Job.VERSION, partial(version_recovery.step, context))
    start_queue = StartQueue(context, pool)
    context.refreshers.append(OrchestratorMetrics(context, lease, pool).refresh)
    return Orchestrator(
        context,
        lease,
        pool,
        proxy_health,
        worker_reports.handlers(proxy_health),
        (
            lease,
            Loop("reconciler", Reconciler(context, lease, pool).step, lease, on_standby=pool.workers.clear),
            Loop("exit_watcher", ExitWatcher(context, lease, pool).step, lease),
            Loop("session_controller", SessionController(context, pool).step, lease),
            *[Loop("start_queue", start_queue.step, lease)] * start_queue.at_once,
            Loop("watchdog", Watchdog(context, lease, pool).step, lease),
            Loop("node_watch", NodeWatch(context, pool).step, lease),
            Loop("ban_end", partial(ban_end.start_when_over, context), lease),
            Loop("version_recovery", versions, lease),
            Loop("proxy_monitor", monitor, lease),
            Loop("slot_assigner", partial(placement.assign_waiting, context), lease),
            Loop("daily_summary", partial(daily_summary.emit_when_due, context), lease),
            Loop("health_watch", partial(health_watch.judge_all, context), lease),
            Loop("lasting_troubles", partial(lasting_troubles.report_new, context), lease),
            Loop("installation_check", partial(check_installation, context), lease),
            Loop("archiver", RecordedStep(context, Job.ARCHIVE, archiver.step), lease),
            Loop("sent_journal", journal.step, lease, on_standby=journal.standby),
            Loop("backups", backups.step, lease, on_standby=backups.standby),
            Loop("trash_purger", purger, lease),
            Loop("received_files", partial(media_fetch.sweep, context)),  # each machine has files on their way
            Loop("media_arrivals", MediaArrivals(context).step, lease),
            Loop("job_requests", by_hand.step, lease),
        ),
    )
