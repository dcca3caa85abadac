"""Assembles the control plane: routes, loops and handlers of worker events."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import structlog
from fastapi import APIRouter

from wa_orchestrator.context import Context
from wa_orchestrator.domain.session import Event
from wa_orchestrator.loop import Loop, Runnable
from wa_orchestrator.orchestrator.api.admin import AdminRoutes
from wa_orchestrator.orchestrator.api.proxies import ProxyRoutes
from wa_orchestrator.orchestrator.api.session_reads import SessionReadRoutes
from wa_orchestrator.orchestrator.api.sessions import SessionRoutes
from wa_orchestrator.orchestrator.api.worker_events import Handlers, WorkerEventRoutes
from wa_orchestrator.orchestrator.disk_monitor import DiskMonitor
from wa_orchestrator.orchestrator.installation_check import InstallationCheck
from wa_orchestrator.orchestrator.leader_lease import LeaderLease
from wa_orchestrator.orchestrator.metrics import OrchestratorMetrics
from wa_orchestrator.orchestrator.notifications.daily_summary import DailySummaries
from wa_orchestrator.orchestrator.proxies.health import ProxyHealth
from wa_orchestrator.orchestrator.proxies.monitor import ProxyMonitor, SlotAssigner
from wa_orchestrator.orchestrator.proxies.socks_check import ProxyCheck
from wa_orchestrator.orchestrator.sessions import credential_files as files
from wa_orchestrator.orchestrator.sessions import transitions, worker_reports
from wa_orchestrator.orchestrator.sessions.ban_end import BanEnd
from wa_orchestrator.orchestrator.workers.pool import WorkerPool
from wa_orchestrator.orchestrator.workers.reconciler import ExitWatcher, Reconciler
from wa_orchestrator.orchestrator.workers.session_controller import SessionController
from wa_orchestrator.orchestrator.workers.start_queue import StartQueue
from wa_orchestrator.orchestrator.workers.watchdog import Watchdog
from wa_orchestrator.runner.contract import Runner
from wa_orchestrator.store.errors import RedisError

_PURGE_EVERY_S = 3600.0
#: How long a stopping server tries to record why its workers end.
RECORD_STOPS_S = 3.0

log = structlog.get_logger(__name__)


class TrashPurger:
    """Deletes old credentials from the trash."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def step(self) -> float:
        """Delete what is older than TRASH_DAYS."""
        await files.purge(self._context.settings, await self._context.scripts.now_ms())
        return _PURGE_EVERY_S


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
        """Return the routes of sessions, proxies, worker events and administration."""
        return [
            SessionReadRoutes(self.context),
            SessionRoutes(self.context, self.proxy_health),
            ProxyRoutes(self.context, self.proxy_health),
            AdminRoutes(self.context),
            WorkerEventRoutes(self.context, self.handlers),
        ]

    async def stop_workers(self) -> None:
        """Stop all running workers in parallel, because the server stops. Which sessions should run stays recorded for
        the next start. The lease must have been retired.
        """
        found = await self.pool.runner.survey()
        # First, so that no message is released to them any more, and the recorded reason is right.
        await self._record_stops([each.session_id for each in found])
        # An error of one must not spare the others; the next server replaces a worker that survives.
        ends = await asyncio.gather(*(self.pool.runner.stop(each.handle) for each in found), return_exceptions=True)
        for each, error in zip(found, ends, strict=True):
            if isinstance(error, BaseException):
                log.error("worker.not_stopped", session=each.session_id, exc_info=error)

    async def _record_stops(self, session_ids: Sequence[str]) -> None:
        """Record why these workers end, for a limited time: they must be stopped even if Redis hangs."""
        tasks = [asyncio.create_task(self._record_stop(each)) for each in session_ids]
        if not tasks:
            return
        # Not cancelled and awaited: redis-py may swallow a cancellation while it connects.
        _, pending = await asyncio.wait(tasks, timeout=RECORD_STOPS_S)
        for task in pending:
            task.cancel()
        if pending:
            log.warning("sessions.stop_not_recorded", sessions=len(pending))

    async def _record_stop(self, session_id: str) -> None:
        try:
            await transitions.apply(self.context, session_id, Event.SERVER_STOPPED)
        except (RedisError, OSError) as error:
            log.warning("session.stop_not_recorded", session=session_id, error=type(error).__name__)


def assemble(context: Context, runner: Runner, checker: ProxyCheck | None = None) -> Orchestrator:
    """Assemble the control plane. Tests pass `checker` instead of the real proxy check."""
    lease = LeaderLease(context)
    pool = WorkerPool(context, lease, runner)
    proxy_health = ProxyHealth(context, lease, checker)
    context.refreshers.append(OrchestratorMetrics(context, lease, pool).refresh)
    return Orchestrator(
        context,
        lease,
        pool,
        proxy_health,
        worker_reports.handlers(proxy_health),
        (
            lease,
            Loop("reconciler", Reconciler(context, lease, pool), lease, on_standby=pool.workers.clear),
            Loop("exit_watcher", ExitWatcher(context, lease, pool), lease),
            Loop("session_controller", SessionController(context, pool), lease),
            Loop("start_queue", StartQueue(context, pool), lease),
            Loop("watchdog", Watchdog(context, lease, pool), lease),
            Loop("ban_end", BanEnd(context), lease),
            Loop("proxy_monitor", ProxyMonitor(context, proxy_health), lease),
            Loop("slot_assigner", SlotAssigner(context), lease),
            Loop("daily_summary", DailySummaries(context), lease),
            Loop("installation_check", InstallationCheck(context), lease),
            Loop("disk_monitor", DiskMonitor(context), lease),
            Loop("trash_purger", TrashPurger(context), lease),
        ),
    )
