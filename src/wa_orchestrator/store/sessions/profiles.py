"""Profiles that an operator added to those of the settings, and the profile of each session."""

from collections.abc import Mapping
from typing import Any

from wa_orchestrator.domain.sessions.profile import DEFAULT
from wa_orchestrator.domain.stream_events import EventType
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts


async def added(scripts: Scripts) -> list[str]:
    """Return the profiles that were added, the oldest first."""
    found: Any = await scripts.redis.hgetall(keys.PROFILES)
    return sorted(found, key=lambda name: (int(found[name]), name))


async def add(scripts: Scripts, name: str) -> bool:
    """Add a profile; False if it is known already."""
    return bool(await scripts.redis.hsetnx(keys.PROFILES, name, str(await scripts.now_ms())))


async def remove(scripts: Scripts, name: str) -> bool:
    """Remove a profile from the list; sessions that have it keep it. False if it was not there."""
    return bool(await scripts.redis.hdel(keys.PROFILES, name))


async def in_use(scripts: Scripts) -> Mapping[str, str]:
    """Return the profile of every session, by session id."""
    ids: Any = sorted(await scripts.redis.smembers(keys.SESSIONS_ALL))
    found = await scripts.each(lambda pipe, key: pipe.hget(key, "device_name"), map(keys.session, ids))
    return {name: profile or DEFAULT for name, profile in zip(ids, found, strict=True)}


async def report_low(scripts: Scripts, low: str) -> None:
    """Tell people once that few profiles are free (`low` has the counts, as JSON), until enough are again ('')."""
    names = [keys.LOW_PROFILES, keys.EVENTS]
    await scripts.whether(
        "report_inventory", names, [low, EventType.PROFILE_LOW_INVENTORY], told=True, known=False, enough=False
    )


async def is_low(scripts: Scripts) -> bool:
    return bool(await scripts.redis.exists(keys.LOW_PROFILES))
