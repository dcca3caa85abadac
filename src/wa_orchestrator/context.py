"""The context of a service: settings, Redis, scripts, metrics."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fastapi import Request
from prometheus_client import CollectorRegistry
from redis.asyncio import Redis

from wa_orchestrator.archive.contract import Archive
from wa_orchestrator.archive.factory import archive_for
from wa_orchestrator.domain import phone
from wa_orchestrator.domain.access.audit_chain import Checkpoint
from wa_orchestrator.instruments import Instruments
from wa_orchestrator.settings import Settings
from wa_orchestrator.store.engine.durability import Weakness
from wa_orchestrator.store.engine.line_client import LineClient
from wa_orchestrator.store.engine.redis_pool import make_pool
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.sessions.labels import SessionLabels
from wa_orchestrator.web.held_bodies import HeldBodies
from wa_orchestrator.web.rates import Rates

if TYPE_CHECKING:
    from wa_orchestrator.web.auth import Caller

#: Returns the caller of a request without an API key (a person with a cookie), or None.
Recognize = Callable[[Request], Awaitable["Caller | None"]]
#: Updates gauges before they are scraped.
Refresh = Callable[[], Awaitable[None]]


_CONNECTIONS = 64
_POOL_TIMEOUT_S = 20
#: Longer than any blocking command (`BLOCK`, BLPOP): the client's default of 5 s aborted them as lost connections.
_SOCKET_TIMEOUT_S = 25


@dataclass(slots=True)
class Context:
    """What the services of one process share. Assembled in `server.bootstrap`."""

    settings: Settings
    redis: Redis
    scripts: Scripts
    archive: Archive = field(init=False)
    """History that has left Redis."""
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    instruments: Instruments = None  # type: ignore[assignment]  # made of the registry, unless it is passed
    recognize: Recognize | None = None
    refreshers: list[Refresh] = field(default_factory=list)
    simulator: dict[str, Any] | None = None
    redis_weaknesses: tuple[Weakness, ...] = ()
    """The settings of Redis with which messages can be lost, as last seen."""
    rates: Rates = field(default_factory=Rates)
    worker_bodies: HeldBodies = field(default_factory=HeldBodies)
    """Bodies of workers' requests that are in memory."""
    workers_read_each_other: bool = False
    """Whether a compromised worker could read the files of others, because the kernel does not prevent it."""
    audit_checked: Checkpoint | None = None
    """How far this process has checked the audit log."""
    key_cache: dict[str, tuple[float, "Caller | None"]] = field(default_factory=dict)
    session_labels: SessionLabels = field(init=False)

    def __post_init__(self) -> None:
        phone.LocalNumbers.country_code = self.settings.default_country or ""
        self.session_labels = SessionLabels(self.scripts)
        self.instruments = self.instruments or Instruments(self.registry)
        self.archive = archive_for(self.settings)


def make_context(settings: Settings, redis: Redis) -> Context:
    """Return a context for an open Redis client (`decode_responses=True`)."""
    return Context(settings, redis, Scripts(redis))


@asynccontextmanager
async def opened(settings: Settings, redis_url: str) -> AsyncIterator[Context]:
    """Yield a context and close its connections afterwards. Redis need not be reachable yet."""
    # For blocking reads and pub/sub; everything else goes over the line.
    pool = make_pool(
        redis_url,
        max_connections=_CONNECTIONS,
        timeout=_POOL_TIMEOUT_S,
        decode_responses=True,
        socket_connect_timeout=5,
        socket_timeout=_SOCKET_TIMEOUT_S,
        health_check_interval=30,
    )
    redis = LineClient(connection_pool=pool, replicas=settings.redis_replicas_ack)
    context = make_context(settings, redis)
    try:
        yield context
    finally:
        await context.archive.close()
        await redis.aclose(close_connection_pool=True)
