"""Answers that people insert into a reply, by name."""

from typing import Any

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts


async def every(scripts: Scripts) -> dict[str, str]:
    """Return all texts by name."""
    stored: Any = await scripts.redis.hgetall(keys.QUICK_REPLIES)
    return dict(sorted(stored.items()))


async def put(scripts: Scripts, name: str, text: str) -> None:
    await scripts.redis.hset(keys.QUICK_REPLIES, name, text)


async def remove(scripts: Scripts, name: str) -> bool:
    """Delete one; False when there is none."""
    return bool(await scripts.redis.hdel(keys.QUICK_REPLIES, name))
