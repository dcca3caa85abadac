"""Checks that an operator's own Redis is durable: that it keeps what it acknowledges."""

import contextlib
from dataclasses import dataclass
from enum import StrEnum

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from wa_orchestrator.errors import Refused, Unavailable
from wa_orchestrator.store.engine.embedded_redis import MIN_MAJOR_VERSION
from wa_orchestrator.store.engine.scripts import Scripts

MEMORY_LOW_SHARE = 0.7


class Weakness(StrEnum):
    """A setting with which Redis can lose or refuse accepted messages. The sentences are in the texts."""

    APPENDONLY_OFF = "APPENDONLY_OFF"
    APPENDFSYNC_NOT_ALWAYS = "APPENDFSYNC_NOT_ALWAYS"
    EVICTION = "EVICTION"
    MEMORY_LOW = "MEMORY_LOW"
    REPLICA = "REPLICA"


@dataclass(frozen=True, slots=True)
class RedisReport:
    version: str
    weaknesses: tuple[Weakness, ...]


async def check(url: str) -> RedisReport:
    """Check the Redis at `url`. Raises Refused when it is too old and Unavailable when it does not answer."""
    redis = Redis.from_url(url, socket_timeout=5, socket_connect_timeout=5, decode_responses=True)
    try:
        verdict = await examine(redis)
    except (RedisError, OSError) as error:
        raise Unavailable("REDIS_UNREACHABLE", f"REDIS_URL: Redis does not answer ({error}).") from error
    finally:
        await redis.aclose()
    if int(verdict.version.split(".", maxsplit=1)[0]) < MIN_MAJOR_VERSION:
        raise Refused("REDIS_TOO_OLD", f"REDIS_URL: this is Redis {verdict.version}; 7 or newer is needed.")
    return verdict


async def weaknesses(scripts: Scripts) -> tuple[Weakness, ...]:
    """Return how the Redis in use may lose what it acknowledged."""
    return (await examine(scripts.redis)).weaknesses


async def examine(redis: Redis) -> RedisReport:
    facts = await redis.info()
    settings: dict[str | None, str | None] = {}
    with contextlib.suppress(ResponseError):  # hosted services forbid CONFIG; INFO knows most of it
        settings = await redis.config_get("appendfsync")
    version = str(facts.get("valkey_version") or facts.get("redis_version", "0"))
    return RedisReport(version, judge(facts, settings.get("appendfsync")))


def memory(facts: dict[str, object]) -> tuple[int, int]:
    """Return the bytes that Redis uses and may use; 0 for no limit."""
    return int(str(facts.get("used_memory", 0))), int(str(facts.get("maxmemory", 0)))


def is_memory_low(used_bytes: int, max_bytes: int) -> bool:
    """Whether Redis has used so much of its memory that somebody should act before it refuses to write."""
    return max_bytes > 0 and used_bytes >= MEMORY_LOW_SHARE * max_bytes


async def memory_in_use(scripts: Scripts) -> tuple[int, int]:
    """Return the bytes that the Redis in use uses and may use; 0 for no limit."""
    return memory(await scripts.redis.info("memory"))


def judge(facts: dict[str, object], appendfsync: str | None) -> tuple[Weakness, ...]:
    found = {
        Weakness.APPENDONLY_OFF: not facts.get("aof_enabled"),
        Weakness.APPENDFSYNC_NOT_ALWAYS: bool(facts.get("aof_enabled")) and appendfsync not in (None, "always"),
        Weakness.EVICTION: facts.get("maxmemory_policy", "noeviction") != "noeviction",
        Weakness.MEMORY_LOW: is_memory_low(*memory(facts)),
        Weakness.REPLICA: facts.get("role") not in (None, "master"),
    }
    return tuple(weakness for weakness, is_so in found.items() if is_so)
