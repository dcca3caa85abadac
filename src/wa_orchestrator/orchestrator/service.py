"""Puts the control plane together: its routes, its loops and what it does with workers' events."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import structlog
from fastapi import APIRouter
from redis.exceptions import RedisError

from wa_orchestrator.context import Context
from wa_orchestrator.domain import proxy_url
from wa_orchestrator.domain.session import Event
from wa_orchestrator.loop import Loop, Runnable
from wa_orchestrator.orchestrator.api import admin, sessions, worker_events
from wa_orchestrator.orchestrator.api import proxies as proxies_api
from wa_orchestrator.orchestrator.api.worker_events import Handlers
from wa_orchestrator.orchestrator.leader_lease import LeaderLease
from wa_orchestrator.orchestrator.metrics import OrchestratorMetrics
from wa_orchestrator.orchestrator.proxies.health import ProxyHealth
from wa_orchestrator.orchestrator.proxies.monitor import ProxyMonitor, SlotAssigner
from wa_orchestrator.orchestrator.proxies.socks_check import ProxyCheck
from wa_orchestrator.orchestrator.sessions import credential_files as files
from wa_orchestrator.orchestrator.sessions import transitions, worker_reports
from wa_orchestrator.orchestrator.workers.pool import WorkerPool
from wa_orchestrator.orchestrator.workers.reconciler import ExitWatcher, Reconciler
from wa_orchestrator.orchestrator.workers.session_controller import SessionController
from wa_orchestrator.orchestrator.workers.start_queue import StartQueue
from wa_orchestrator.orchestrator.workers.watchdog import Watchdog
from wa_orchestrator.runner.contract import Runner
from wa_orchestrator.store import proxies

_PURGE_EVERY_S = 3600.0
#: How long a server that stops tries to write down why its workers end.
LAST_WORD_S = 3.0

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
    """The control plane of one process. Others may add to `handlers` before the routers are used."""

    context: Context
    lease: LeaderLease
    pool: WorkerPool
    proxy_health: ProxyHealth
    handlers: Handlers
    loops: Sequence[Runnable]

    @property
    def routers(self) -> list[APIRouter]:
        """The routes of sessions, proxies, events and administration."""
        return [
            sessions.router(self.context),
            proxies_api.router(self.context, self.proxy_health),
            admin.router(self.context),
            worker_events.router(self.context, self.handlers),
        ]

    async def stop_workers(self) -> None:
        """End all workers that run, in parallel, because the server stops; what should run is left as it is, so that a
        later start finds it. Nobody may lead any more.
        """
        found = await self.pool.runner.survey()
        # First, so that nothing is released to them any more, and their end reads as what it is.
        await self._record_stops([each.session_id for each in found])
        # All of them are told, whatever becomes of one: who outlives it is replaced by the next server.
        ends = await asyncio.gather(*(self.pool.runner.stop(each.handle) for each in found), return_exceptions=True)
        for each, error in zip(found, ends, strict=True):
            if isinstance(error, BaseException):
                log.error("worker.not_stopped", session=each.session_id, exc_info=error)

    async def _record_stops(self, session_ids: Sequence[str]) -> None:
        """Write why these workers end, for a moment: with a Redis that hangs, they must end all the same."""
        saying = [asyncio.create_task(self._record_stop(each)) for each in session_ids]
        if not saying:
            return
        # Not cancelled and awaited: the Redis client may keep a cancellation to itself while it connects.
        _, unsaid = await asyncio.wait(saying, timeout=LAST_WORD_S)
        for task in unsaid:
            task.cancel()
        if unsaid:
            log.warning("sessions.end_not_written", sessions=len(unsaid))

    async def _record_stop(self, session_id: str) -> None:
        try:
            await transitions.apply(self.context, session_id, Event.SERVER_STOPPED)
        except (RedisError, OSError) as error:
            log.warning("session.end_not_written", session=session_id, error=type(error).__name__)


def assemble(context: Context, runner: Runner, checker: ProxyCheck | None = None) -> Orchestrator:
    """Put the parts together. `checker` stands in for the check of a proxy, in tests."""
    lease = LeaderLease(context)
    pool = WorkerPool(context, lease, runner)
    proxy_health = ProxyHealth(context, checker)
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
            Loop("proxy_monitor", ProxyMonitor(context, proxy_health), lease),
            Loop("slot_assigner", SlotAssigner(context), lease),
            Loop("trash_purger", TrashPurger(context), lease),
        ),
    )


async def add_configured_proxies(context: Context) -> None:
    """Let `PROXY_URL_1…n` join the pool; those that are there already stay as they are."""
    for secret in context.settings.proxy_urls:
        url = proxy_url.parse(secret.get_secret_value())
        await proxies.add(context.scripts, url.id, url=url.url, masked=url.masked, origin="environment")
