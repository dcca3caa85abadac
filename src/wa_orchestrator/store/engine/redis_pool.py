"""Connection pools for REDIS_URL: one Redis, or whichever Redis the Sentinels call the primary."""

from typing import Any, Final

from redis.asyncio import BlockingConnectionPool, ConnectionPool
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool

from wa_orchestrator.domain import sentinel_url

#: A Sentinel that does not answer by then is passed over; the next one may know more.
_SENTINEL_TIMEOUT_S: Final = 1.0


class PrimaryPool(SentinelConnectionPool, BlockingConnectionPool):
    """Connections to the primary; each asks the Sentinels for its address when it opens."""

    async def aclose(self) -> None:
        """Close the connections, those to the Sentinels too."""
        await super().aclose()
        await self.sentinel_manager.aclose()


def make_pool(url: str, **options: Any) -> ConnectionPool:
    """Return a pool whose callers wait when all connections are in use. Nothing is opened yet."""
    if not sentinel_url.is_sentinel_url(url):
        return BlockingConnectionPool.from_url(url, **options)
    where = sentinel_url.parse(url)
    to_sentinels: dict[str, Any] = {
        "socket_timeout": _SENTINEL_TIMEOUT_S,
        "socket_connect_timeout": _SENTINEL_TIMEOUT_S,
        "password": where.sentinel_password,
        "ssl": where.is_tls,
    }
    sentinels = Sentinel(where.sentinels, sentinel_kwargs=to_sentinels)  # type: ignore[no-untyped-call]
    return PrimaryPool(  # type: ignore[no-untyped-call]
        where.service,
        sentinels,
        db=where.database,
        username=where.username,
        password=where.password,
        ssl=where.is_tls,
        **options,
    )
