"""Checks the types of the keys that outside tools know: one of another type would fail every call that uses it."""

from collections.abc import Mapping
from typing import Any, Final

from redis import exceptions
from redis.asyncio.client import Pipeline

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts

_FIXED: Final[Mapping[str, str]] = {
    keys.GATEWAY_JOBS: "list",
    keys.GATEWAY_WAITING: "hash",
    keys.COUNTS: "hash",
    keys.SCHEDULED: "zset",
    keys.EXPIRING: "zset",
    keys.LEASES: "zset",
    keys.DEAD: "zset",
    keys.ENDED: "zset",
    keys.ALL_MESSAGES: "zset",
    keys.DUE: "zset",
    keys.TAG_LIMITS: "hash",
    keys.PROFILES: "hash",
    keys.HOLDS: "hash",
    keys.OPT_OUTS: "hash",
    keys.SESSIONS_ALL: "set",
    keys.SESSIONS_ACTIVE: "set",
    keys.SESSIONS_CHANGED: "zset",
    keys.PROVISIONING: "list",
    keys.RESTARTING: "list",
    keys.PROXIES_ALL: "set",
    keys.PROXIES_AVAILABLE: "set",
    keys.EVENTS: "stream",
    keys.AUDIT: "stream",
    keys.WEBHOOKS: "hash",
}
_PER_PHONE: Final = {
    keys.queue: "zset",
    keys.set_aside: "zset",
    keys.later: "zset",
    keys.sent: "zset",
    keys.pace: "hash",
    keys.sticky: "string",
}


async def problems(scripts: Scripts) -> list[str]:
    """Return one line for every key of a wrong type: those with a fixed name, and those of sessions and their phones.

    None while Redis cannot be reached: services may start before it.
    """
    try:
        return await _problems(scripts)
    except (exceptions.ConnectionError, exceptions.TimeoutError):
        return []


async def _problems(scripts: Scripts) -> list[str]:
    found = await _wrong(scripts, _FIXED)
    if found:
        return found
    ids: Any = sorted(await scripts.redis.smembers(keys.SESSIONS_ALL))
    found = await _wrong(scripts, {keys.session(name): "hash" for name in ids})
    if found:
        return found
    found_phones = await scripts.each(lambda pipe, key: pipe.hget(key, "phone"), map(keys.session, ids))
    phones = sorted({str(phone) for phone in found_phones if phone})
    of_phones = {key(phone): kind for phone in phones for key, kind in _PER_PHONE.items()}
    return await _wrong(scripts, {keys.outbox(name): "list" for name in ids} | of_phones)


async def _wrong(scripts: Scripts, expected: Mapping[str, str]) -> list[str]:
    kinds = await scripts.each(Pipeline.type, expected)
    return [
        f"the key {name} is a {kind} and must be a {wanted}"
        for (name, wanted), kind in zip(expected.items(), kinds, strict=True)
        if kind not in (wanted, "none")
    ]
