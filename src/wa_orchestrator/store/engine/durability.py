"""Checks that an operator's own Redis is durable: that it keeps what it acknowledges."""

import contextlib
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from wa_orchestrator.errors import Refused, Unavailable
from wa_orchestrator.store.engine.embedded_redis import MIN_MAJOR_VERSION
from wa_orchestrator.store.engine.line_client import LineClient
from wa_orchestrator.store.engine.redis_pool import PrimaryPool, make_pool
from wa_orchestrator.store.engine.scripts import Scripts

MEMORY_LOW_SHARE = 0.7


class Weakness(StrEnum):
    """A setting with which Redis can lose or refuse accepted messages. The sentences are in the texts."""

    APPENDONLY_OFF = "APPENDONLY_OFF"
    APPENDFSYNC_NOT_ALWAYS = "APPENDFSYNC_NOT_ALWAYS"
    EVICTION = "EVICTION"
    MEMORY_LOW = "MEMORY_LOW"
    REPLICA = "REPLICA"
    FAILOVER_LOSES_WRITES = "FAILOVER_LOSES_WRITES"
    TOO_FEW_REPLICAS = "TOO_FEW_REPLICAS"


#: With these a message that was accepted can be lost, or nothing is accepted.
_PROMISES_NOTHING = frozenset(Weakness) - {Weakness.MEMORY_LOW}


class Promise(StrEnum):
    """What this Redis makes of an accepted message. The sentences are in the texts."""

    ONE_DISK = "ONE_DISK"
    REPLICAS = "REPLICAS"
    """On so many machines more as REDIS_REPLICAS_ACK says."""


@dataclass(frozen=True, slots=True)
class RedisReport:
    version: str
    weaknesses: tuple[Weakness, ...]
    promise: Promise | None
    """None where a weakness leaves nothing to promise, or the server does not tell its settings."""


async def check(url: str, replicas_ack: int = 0) -> RedisReport:
    """Check the Redis at `url`. Raises Refused when it cannot be used and Unavailable when it does not answer."""
    pool = make_pool(url, socket_timeout=5, socket_connect_timeout=5, decode_responses=True)
    redis = Redis.from_pool(pool)
    try:
        _refuse_cluster(await redis.info("cluster"))
        verdict = await examine(redis, replicas_ack)
    except (RedisError, OSError) as error:
        raise Unavailable("REDIS_UNREACHABLE", f"REDIS_URL: Redis does not answer ({error}).") from error
    finally:
        await redis.aclose()
    if int(verdict.version.split(".", maxsplit=1)[0]) < MIN_MAJOR_VERSION:
        raise Refused("REDIS_TOO_OLD", f"REDIS_URL: this is Redis {verdict.version}; 7 or newer is needed.")
    return verdict


async def refuse_cluster(scripts: Scripts) -> None:
    """Raise Refused when Redis runs in cluster mode. One that cannot be reached may yet start."""
    with contextlib.suppress(RedisConnectionError, RedisTimeoutError):
        _refuse_cluster(await scripts.redis.info("cluster"))


def _refuse_cluster(facts: dict[str, object]) -> None:
    if facts.get("cluster_enabled"):
        raise Refused(
            "REDIS_CLUSTER",
            "REDIS_URL: this Redis runs in cluster mode, which cannot be used: one step changes several keys "
            "at once, and a cluster keeps them on different machines. Use one Redis, or one with Sentinels "
            "(redis+sentinel://…).",
        )


async def weaknesses(scripts: Scripts) -> tuple[Weakness, ...]:
    """Return how the Redis in use may lose what it acknowledged."""
    needed = scripts.redis.line.replicas if isinstance(scripts.redis, LineClient) else 0
    return (await examine(scripts.redis, needed)).weaknesses


async def examine(redis: Redis, replicas_ack: int) -> RedisReport:
    facts = await redis.info()
    settings: dict[str | None, str | None] = {}
    with contextlib.suppress(ResponseError):  # hosted services forbid CONFIG; INFO knows most of it
        settings = await redis.config_get("appendfsync")
    version = str(facts.get("valkey_version") or facts.get("redis_version", "0"))
    has_failover = isinstance(redis.connection_pool, PrimaryPool)
    appendfsync = settings.get("appendfsync")
    found = judge(facts, appendfsync, replicas_ack, has_failover=has_failover)
    return RedisReport(version, found, promise(found, appendfsync, replicas_ack))


def promise(found: Collection[Weakness], appendfsync: str | None, replicas_ack: int) -> Promise | None:
    """Return what a Redis with these weaknesses makes of an accepted message."""
    if appendfsync is None or not _PROMISES_NOTHING.isdisjoint(found):
        return None
    return Promise.REPLICAS if replicas_ack else Promise.ONE_DISK


def memory(facts: dict[str, object]) -> tuple[int, int]:
    """Return the bytes that Redis uses and may use; 0 for no limit."""
    return int(str(facts.get("used_memory", 0))), int(str(facts.get("maxmemory", 0)))


def is_memory_low(used_bytes: int, max_bytes: int) -> bool:
    """Whether Redis has used so much of its memory that somebody should act before it refuses to write."""
    return max_bytes > 0 and used_bytes >= MEMORY_LOW_SHARE * max_bytes


async def memory_in_use(scripts: Scripts) -> tuple[int, int]:
    """Return the bytes that the Redis in use uses and may use; 0 for no limit."""
    return memory(await scripts.redis.info("memory"))


def judge(
    facts: dict[str, object], appendfsync: str | None, replicas_ack: int = 0, *, has_failover: bool = False
) -> tuple[Weakness, ...]:
    found = {
        Weakness.APPENDONLY_OFF: not facts.get("aof_enabled"),
        Weakness.APPENDFSYNC_NOT_ALWAYS: bool(facts.get("aof_enabled")) and appendfsync not in (None, "always"),
        Weakness.EVICTION: facts.get("maxmemory_policy", "noeviction") != "noeviction",
        Weakness.MEMORY_LOW: is_memory_low(*memory(facts)),
        Weakness.REPLICA: facts.get("role") not in (None, "master"),
        Weakness.FAILOVER_LOSES_WRITES: has_failover and not replicas_ack,
        Weakness.TOO_FEW_REPLICAS: int(str(facts.get("connected_slaves", 0))) < replicas_ack,
    }
    return tuple(weakness for weakness, is_so in found.items() if is_so)
