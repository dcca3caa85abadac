"""Prometheus metrics of the installation: read from Redis when they are scraped."""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.metadata import version
from itertools import accumulate
from typing import Final

from prometheus_client import Gauge, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions.session import State
from wa_orchestrator.domain.stream_events import EventType
from wa_orchestrator.orchestrator.leader_lease import LeaderLease
from wa_orchestrator.orchestrator.proxies import placement
from wa_orchestrator.orchestrator.workers.pool import WorkerPool
from wa_orchestrator.store import records
from wa_orchestrator.store.engine import redis_info
from wa_orchestrator.store.events import event_counts, event_lag
from wa_orchestrator.store.events.event_counts import BUCKETS_S, Duration
from wa_orchestrator.store.messages import message_counts
from wa_orchestrator.store.sessions import control_plane

#: What happened to messages, by the event that tells of it.
_OUTCOMES: Final = {
    EventType.MESSAGE_SCHEDULED: "released",
    EventType.MESSAGE_SENDING: "claimed",
    EventType.MESSAGE_SENT: "sent",
    EventType.MESSAGE_DELIVERED: "delivered",
    EventType.MESSAGE_READ: "read",
    EventType.MESSAGE_FAILED: "failed",
    EventType.MESSAGE_UNKNOWN: "unknown",
    EventType.MESSAGE_EXPIRED: "expired",
    EventType.MESSAGE_CANCELLED: "cancelled",
    EventType.MESSAGE_RECEIVED: "received",
    EventType.MESSAGE_UNDECRYPTABLE: "undecryptable",
}
_DURATIONS: Final = {
    "wait": ("wa_message_wait_seconds", "From when a message was to leave (accepted, or its own time) to its release"),
    "claim": ("wa_message_claim_seconds", "From a message's release to its claim by a worker"),
    "ack": ("wa_message_ack_seconds", "From a message's claim to WhatsApp's acknowledgement"),
}


class EventCollector(Collector):
    """Counters and histograms of what is counted in Redis: the same in every process, and after every restart."""

    def __init__(self) -> None:
        self.counts: Mapping[tuple[str, str], int] = {}
        self.durations: Mapping[str, Duration] = {}

    def collect(self) -> Iterator[Metric]:
        """Yield every metric, as last read; prometheus_client calls this."""
        yield self._events()
        yield self._messages()
        yield self._by_reason("wa_message_failures", "Messages that failed, by reason", EventType.MESSAGE_FAILED)
        yield self._by_reason("wa_message_retries", "Messages that returned to their queue", EventType.MESSAGE_QUEUED)
        for step, (name, text) in _DURATIONS.items():
            yield _histogram(name, text, self.durations.get(step, Duration((0,) * (len(BUCKETS_S) + 1), 0)))

    def _events(self) -> Metric:
        family = CounterMetricFamily("wa_events", "Events by type", labels=["type"])
        totals: Counter[str] = Counter()
        for (kind, _), count in self.counts.items():
            totals[kind] += count
        for kind in EventType:
            family.add_metric([kind], totals[kind])
        return family

    def _messages(self) -> Metric:
        family = CounterMetricFamily("wa_messages", "What happened to messages", labels=["event"])
        family.add_metric(["accepted"], self.counts.get((EventType.MESSAGE_QUEUED, ""), 0))
        for kind, name in _OUTCOMES.items():
            family.add_metric([name], sum(count for (each, _), count in self.counts.items() if each == kind))
        return family

    def _by_reason(self, name: str, text: str, kind: EventType) -> Metric:
        family = CounterMetricFamily(name, text, labels=["reason"])
        for (each, reason), count in sorted(self.counts.items()):
            if each == kind and reason:
                family.add_metric([reason], count)
        return family


def _histogram(name: str, text: str, duration: Duration) -> Metric:
    family = HistogramMetricFamily(name, text)
    limits = [*(str(limit) for limit in BUCKETS_S), "+Inf"]
    family.add_metric([], list(zip(limits, accumulate(duration.buckets), strict=True)), duration.sum_s)
    return family


class OrchestratorMetrics:
    """Everything that is read when it is scraped."""

    def __init__(self, context: Context, lease: LeaderLease, pool: WorkerPool) -> None:
        self._context = context
        self._lease = lease
        self._pool = pool
        self._events = EventCollector()
        context.registry.register(self._events)
        ProcessCollector(registry=context.registry)
        PlatformCollector(registry=context.registry)
        gauge = partial(Gauge, registry=context.registry)
        gauge("wa_build_info", "The version that runs", ["version"]).labels(version("wa-orchestrator")).set(1)
        self._sessions = gauge("wa_sessions", "Sessions by status", ["status"])
        self._slots = gauge("wa_proxy_slots", "Slots of healthy proxies", ["state"])
        self._proxies = gauge("wa_proxies", "Proxies by status", ["status"])
        self._waiting = gauge("wa_sessions_waiting_for_proxy", "Sessions without a slot")
        self._starting = gauge("wa_provisioning_queue", "Sessions in the start queue")
        self._workers = gauge("wa_workers", "Workers that this process manages")
        self._memory = gauge("wa_workers_rss_bytes", "Memory of all workers, from their last pings")
        self._leads = gauge("wa_control_lease_held", "1 if this process is the leader")
        self._queue = gauge("wa_queue_messages", "Messages that have not ended, by status", ["status"])
        self._oldest = gauge("wa_queue_oldest_seconds", "How long the oldest message that may leave has waited")
        self._overdue = gauge("wa_dispatch_overdue_seconds", "How long the most overdue phone waits for a dispatcher")
        self._lag = gauge("wa_event_lag_seconds", "How far a consumer of events is behind", ["consumer"])
        self._redis_bytes = gauge("wa_redis_memory_bytes", "Memory of Redis; limit 0 means none", ["kind"])
        self._redis_clients = gauge("wa_redis_clients", "Connections to Redis")
        self._delayed_syncs = gauge("wa_redis_delayed_syncs", "How often a write of Redis waited for a slow disk")

    async def refresh(self) -> None:
        """Read everything anew."""
        await self._refresh_fleet()
        await self._refresh_messages()
        info = await redis_info.read(self._context.scripts)
        self._redis_bytes.labels("used").set(info.used_bytes)
        self._redis_bytes.labels("limit").set(info.max_bytes)
        self._redis_clients.set(info.clients)
        self._delayed_syncs.set(info.delayed_syncs)

    async def _refresh_fleet(self) -> None:
        sessions = await records.sessions(self._context.scripts)
        counted = Counter(session.status for session in sessions)
        for state in State:
            self._sessions.labels(state).set(counted[state])
        stock = await placement.inventory(self._context)
        self._slots.labels("free").set(stock["free"])
        self._slots.labels("taken").set(stock["slots"] - stock["free"])
        self._proxies.labels("OK").set(stock["healthy"])
        self._proxies.labels("BAD").set(stock["proxies"] - stock["healthy"])
        self._waiting.set(stock["waiting"])
        plan = await control_plane.start_plan(self._context.scripts)
        self._starting.set(plan.links + plan.restarts)
        self._workers.set(len(self._pool.workers))
        self._memory.set(sum(session.ping_rss_bytes for session in sessions))
        self._leads.set(self._lease.is_leader)

    async def _refresh_messages(self) -> None:
        scripts = self._context.scripts
        self._events.counts = await event_counts.read(scripts)
        self._events.durations = await event_counts.durations(scripts)
        counts = await message_counts.by_status(scripts)
        for status in ("queued", "scheduled", "sending"):
            self._queue.labels(status).set(counts.get(status, 0))
        self._oldest.set(await event_lag.oldest_waiting_s(scripts))
        self._overdue.set(await event_lag.overdue_phone_s(scripts))
        for consumer, lag_s in (await event_lag.of_consumers(scripts)).items():
            self._lag.labels(consumer).set(lag_s)
