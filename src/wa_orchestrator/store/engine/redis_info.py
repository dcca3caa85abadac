"""Figures of Redis itself."""

from dataclasses import dataclass
from typing import Any

from wa_orchestrator.store.engine.scripts import Scripts


@dataclass(frozen=True, slots=True)
class RedisInfo:
    """Memory, connections, and whether the disk keeps up with what is written."""

    used_bytes: int
    max_bytes: int
    """The limit at which Redis refuses writes; 0 where there is none."""
    clients: int
    commands: int
    delayed_syncs: int


async def read(scripts: Scripts) -> RedisInfo:
    """Return the figures as they are now."""
    raw: dict[str, Any] = await scripts.redis.info()
    return RedisInfo(
        int(raw["used_memory"]),
        int(raw.get("maxmemory", 0)),
        int(raw["connected_clients"]),
        int(raw["total_commands_processed"]),
        int(raw.get("aof_delayed_fsync", 0)),
    )
