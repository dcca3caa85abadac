"""The engine's nodes as the leader last saw them, and those that an operator drains."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from wa_orchestrator.domain.workers.nodes import NodeState, WorkerNode
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts

_KNOWN_FOR_MS: Final = 60_000


async def note(scripts: Scripts, nodes: Sequence[WorkerNode]) -> None:
    """Record what the engine has just told, for those that cannot ask it."""
    await scripts.redis.set(keys.CONTROL_NODES, json.dumps([asdict(each) for each in nodes]), px=_KNOWN_FOR_MS)


async def known(scripts: Scripts) -> list[WorkerNode]:
    """Return the nodes; none where all workers run on one machine, or while no leader asks the engine."""
    text: Any = await scripts.redis.get(keys.CONTROL_NODES)
    return [WorkerNode(**each | {"state": NodeState(each["state"])}) for each in json.loads(text or "[]")]


async def drained(scripts: Scripts) -> set[str]:
    """Return the nodes that an operator drains or has drained."""
    found: Any = await scripts.redis.smembers(keys.CONTROL_DRAINED)
    return set(found)


async def drain(scripts: Scripts, node: str) -> None:
    await scripts.redis.sadd(keys.CONTROL_DRAINED, node)


async def activate(scripts: Scripts, node: str) -> None:
    await scripts.redis.srem(keys.CONTROL_DRAINED, node)
