"""Limits by tag: stored once, and copied to every session that has the tag."""

from dataclasses import dataclass
from typing import Any

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.compare_and_set import Changed, compare_and_set
from wa_orchestrator.store.engine.scripts import Scripts


@dataclass(frozen=True, slots=True)
class TagLimitsSet:
    """They are in force; `sessions` got other limits by that."""

    sessions: int


async def read(scripts: Scripts) -> dict[str, str]:
    """Return the limits of all tags that have some, as JSON, sorted by tag."""
    found: Any = await scripts.redis.hgetall(keys.TAG_LIMITS)
    return {tag: found[tag] for tag in sorted(found)}


async def put(scripts: Scripts, tag: str, limits: str) -> TagLimitsSet:
    """Write the limits of a tag, and the copies that sessions have of them."""
    return await _write(scripts, tag, limits)


async def remove(scripts: Scripts, tag: str) -> TagLimitsSet:
    """Delete the limits of a tag."""
    return await _write(scripts, tag, "")


@compare_and_set("The list of sessions")
async def _write(scripts: Scripts, tag: str, limits: str) -> TagLimitsSet | Changed:
    ids: Any = sorted(await scripts.redis.smembers(keys.SESSIONS_ALL))
    names = [keys.TAG_LIMITS, keys.DUE, keys.SESSIONS_CHANGED, keys.SESSIONS_ALL, *map(keys.session, ids)]
    return await scripts.ask("set_tag_limits", names, [tag, limits, *ids], set=TagLimitsSet, changed=Changed)
