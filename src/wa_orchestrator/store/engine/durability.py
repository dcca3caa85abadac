"""Checks that an operator's own Redis is durable: that it keeps what it acknowledges."""

import contextlib
from dataclasses import dataclass

from redis.asyncio import Redis
from redis.exceptions import RedisError

from wa_orchestrator.errors import Refused, Unavailable

MIN_MAJOR_VERSION = 7


@dataclass(frozen=True, slots=True)
class Verdict:
    """The version of an external Redis, and what in its configuration could lose messages."""

    version: str
    warnings: tuple[str, ...]


async def check(url: str) -> Verdict:
    """Check the Redis at `url`. Raises Refused when it is too old and Unavailable when it does not answer."""
    redis = Redis.from_url(url, socket_timeout=5, socket_connect_timeout=5, decode_responses=True)
    try:
        facts = await redis.info()
        settings: dict[str | None, str | None] = {}
        with contextlib.suppress(RedisError):  # hosted services forbid CONFIG; INFO knows most of it
            settings = await redis.config_get("appendfsync")
    except (RedisError, OSError) as error:
        raise Unavailable("REDIS_UNREACHABLE", f"REDIS_URL: Redis does not answer ({error}).") from error
    finally:
        await redis.aclose()
    version = str(facts.get("valkey_version") or facts.get("redis_version", "0"))
    if int(version.split(".", maxsplit=1)[0]) < MIN_MAJOR_VERSION:
        raise Refused("REDIS_TOO_OLD", f"REDIS_URL: this is Redis {version}; 7 or newer is needed.")
    return Verdict(version, judge(facts, settings.get("appendfsync")))


def judge(facts: dict[str, object], appendfsync: str | None) -> tuple[str, ...]:
    """Return a sentence for each setting that can lose or reject accepted messages."""
    warnings = []
    if not facts.get("aof_enabled"):
        warnings.append("appendonly is off: a crash of Redis loses accepted messages. Set `appendonly yes`.")
    elif appendfsync not in (None, "always"):
        warnings.append(
            f"appendfsync is {appendfsync}: a power cut can lose the last second. Set `appendfsync always`."
        )
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        warnings.append(f"maxmemory-policy is {policy}: Redis may throw messages away. Set `noeviction`.")
    if facts.get("role") not in (None, "master"):
        warnings.append("this is a replica and cannot be written to. Point REDIS_URL at the primary.")
    return tuple(warnings)
