"""What a service is given to work with."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fastapi import Request
from prometheus_client import CollectorRegistry
from redis.asyncio import BlockingConnectionPool, Redis

from wa_orchestrator.settings import Settings
from wa_orchestrator.store.engine.scripts import Scripts

if TYPE_CHECKING:
    from wa_orchestrator.web.auth import Caller

#: Says who is behind a request that carries no API key (a person with a cookie), or None.
Recognize = Callable[[Request], Awaitable["Caller | None"]]
#: Brings gauges up to date before they are read.
Refresh = Callable[[], Awaitable[None]]


_CONNECTIONS = 64
_PATIENCE_S = 20
#: How long an answer of Redis may take. Longer than anybody waits in Redis (`BLOCK`, BLPOP): the client's own default,
#: 5 s, cut such waits off and took the silence for a lost connection.
ANSWER_S = 25


@dataclass(slots=True)
class Context:
    """One process' view of the installation. Parts that meet here are put together in `bootstrap`."""

    settings: Settings
    redis: Redis
    scripts: Scripts
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    recognize: Recognize | None = None
    refreshers: list[Refresh] = field(default_factory=list)
    simulator: dict[str, Any] | None = None
    key_cache: dict[str, tuple[float, "Caller | None"]] = field(default_factory=dict)


def make_context(settings: Settings, redis: Redis) -> Context:
    """Put a context together around an open Redis client (`decode_responses=True`)."""
    return Context(settings, redis, Scripts(redis))


@asynccontextmanager
async def opened(settings: Settings, redis_url: str) -> AsyncIterator[Context]:
    """Open a context and close its connections afterwards. Redis need not answer yet."""
    # Whoever finds all connections in use waits for one; hundreds of workers may ask in the same moment.
    pool = BlockingConnectionPool.from_url(
        redis_url,
        max_connections=_CONNECTIONS,
        timeout=_PATIENCE_S,
        decode_responses=True,
        socket_connect_timeout=5,
        socket_timeout=ANSWER_S,
        health_check_interval=30,
    )
    redis = Redis.from_pool(pool)
    try:
        yield make_context(settings, redis)
    finally:
        await redis.aclose()
