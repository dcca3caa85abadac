"""Checks the types of the keys that outside tools know: one of another type would fail every call that uses it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from redis import exceptions
from redis.asyncio.client import Pipeline

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts

_FIXED: Final[Mapping[str, Sequence[str]]] = {
    "list": (keys.GATEWAY_JOBS, keys.PROVISIONING, keys.RESTARTING),
    "hash": (
        keys.GATEWAY_WAITING, keys.COUNTS, keys.TAG_LIMITS, keys.PROFILES, keys.HOLDS, keys.OPT_OUTS, keys.WEBHOOKS,
    ),
    "set": (keys.SESSIONS_ALL, keys.SESSIONS_ACTIVE, keys.PROXIES_ALL, keys.PROXIES_AVAILABLE),
    "zset": (
        keys.SCHEDULED, keys.EXPIRING, keys.LEASES, keys.DEAD, keys.ENDED, keys.ALL_MESSAGES, keys.DUE,
        keys.SESSIONS_CHANGED,
    ),
    "stream": (keys.EVENTS, keys.AUDIT),
}  # fmt: skip
_PER_PHONE: Final = {
    keys.queue: "zset", keys.set_aside: "zset", keys.later: "zset", keys.sent: "zset", keys.pace: "hash",
    keys.sticky: "string",
}  # fmt: skip


async def problems(scripts: Scripts) -> list[str]:
    """Return one line for every key of a wrong type: those with a fixed name, and those of sessions and their phones.

    None while Redis cannot be reached: services may start before it.
    """
    try:
        return await _problems(scripts)
    except (exceptions.ConnectionError, exceptions.TimeoutError):
        return []


async def _problems(scripts: Scripts) -> list[str]:
    found = await _wrong(scripts, {name: kind for kind, names in _FIXED.items() for name in names})
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
