"""Prometheus metrics of the control plane."""

from collections import Counter
from functools import partial

from prometheus_client import Gauge

from wa_orchestrator.context import Context
from wa_orchestrator.domain.session import State
from wa_orchestrator.orchestrator.leader_lease import LeaderLease
from wa_orchestrator.orchestrator.proxies import placement
from wa_orchestrator.orchestrator.workers.pool import WorkerPool
from wa_orchestrator.store import records
from wa_orchestrator.store.sessions import control_plane


class OrchestratorMetrics:
    """Gauges that are refreshed when they are scraped."""

    def __init__(self, context: Context, lease: LeaderLease, pool: WorkerPool) -> None:
        self._context = context
        self._lease = lease
        self._pool = pool
        gauge = partial(Gauge, registry=context.registry)
        self._sessions = gauge("wa_sessions", "Sessions by status", ["status"])
        self._slots = gauge("wa_proxy_seats", "Slots of healthy proxies", ["state"])
        self._proxies = gauge("wa_proxies", "Proxies by status", ["status"])
        self._waiting = gauge("wa_sessions_waiting_for_proxy", "Sessions without a slot")
        self._starting = gauge("wa_provisioning_queue", "Sessions in the start queue")
        self._workers = gauge("wa_workers", "Workers that this process manages")
        self._memory = gauge("wa_workers_rss_bytes", "Memory of all workers, from their last pings")
        self._leads = gauge("wa_control_lease_held", "1 if this process is the leader")

    async def refresh(self) -> None:
        sessions = await records.sessions(self._context.scripts)
        counted = Counter(session.status for session in sessions)
        for state in State:
            self._sessions.labels(state).set(counted[state])
        stock = await placement.inventory(self._context)
        self._slots.labels("free").set(stock["free"])
        self._slots.labels("taken").set(stock["seats"] - stock["free"])
        self._proxies.labels("OK").set(stock["healthy"])
        self._proxies.labels("BAD").set(stock["proxies"] - stock["healthy"])
        self._waiting.set(stock["waiting"])
        plan = await control_plane.start_plan(self._context.scripts)
        self._starting.set(plan.links + plan.restarts)
        self._workers.set(len(self._pool.workers))
        self._memory.set(sum(session.ping_rss_bytes for session in sessions))
        self._leads.set(self._lease.is_leader)
