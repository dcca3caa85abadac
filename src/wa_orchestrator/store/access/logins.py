"""Logins to the dashboard: counted attempts, one-time links, and the sessions of people."""

from dataclasses import asdict, dataclass
from typing import Any

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.record_codec import decode


@dataclass(frozen=True, slots=True)
class Login:
    """A person's session: who it is, the token of their forms, since when, and the mark of the password they used."""

    role: str
    name: str
    csrf: str
    since: int
    mark: str


async def count_attempt(scripts: Scripts, account: str, *, window_s: int) -> int:
    """Count an attempt under this account and return how many there were; the count ends after `window_s`."""
    key = keys.login_tries(account)
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.incr(key)
        pipe.expire(key, window_s, nx=True)
        made, _ = await pipe.execute()
    return int(made)


async def attempts(scripts: Scripts, account: str) -> int:
    """Return how many attempts are counted under this account."""
    return int(await scripts.redis.get(keys.login_tries(account)) or 0)


async def clear_attempts(scripts: Scripts, account: str) -> None:
    await scripts.redis.delete(keys.login_tries(account))


async def add_link(scripts: Scripts, token_hash: str, role: str, *, ttl_s: int) -> None:
    await scripts.redis.set(keys.login_link(token_hash), role, ex=ttl_s)


async def use_link(scripts: Scripts, token_hash: str) -> str | None:
    """Return the role of a one-time link and delete it; None when it was used, expired or never existed."""
    role: Any = await scripts.redis.getdel(keys.login_link(token_hash))
    return str(role) if role else None


async def add(scripts: Scripts, token_hash: str, login: Login, *, ttl_s: int) -> None:
    fields: dict[Any, Any] = {name: str(value) for name, value in asdict(login).items()}
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.hset(keys.person(token_hash), mapping=fields)
        pipe.expire(keys.person(token_hash), ttl_s)
        await pipe.execute()


async def find(scripts: Scripts, token_hash: str) -> Login | None:
    raw: Any = await scripts.redis.hgetall(keys.person(token_hash))
    return decode(Login, raw) if raw else None


async def extend(scripts: Scripts, token_hash: str, *, ttl_s: int) -> None:
    await scripts.redis.expire(keys.person(token_hash), ttl_s)


async def remove(scripts: Scripts, token_hash: str) -> None:
    await scripts.redis.delete(keys.person(token_hash))
