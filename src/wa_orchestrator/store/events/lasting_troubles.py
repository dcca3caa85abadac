"""Lasting troubles: one event when a trouble begins; pages show it until it is over."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wa_orchestrator.domain import stream_events
from wa_orchestrator.domain.stream_events import EventType, Payload
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import event_stream


@dataclass(frozen=True, slots=True)
class FoundTrouble:
    """A trouble that was found: its event is emitted when it begins, unless `told` already."""

    kind: EventType
    payload: Payload
    told: bool = False


@dataclass(frozen=True, slots=True)
class Trouble:
    """A trouble that lasts, since when it is known, and the fields of its event."""

    kind: str
    at_ms: int
    fields: Mapping[str, str]


Troubles = Mapping[str, FoundTrouble]
"""Troubles by a name that stays the same while they last."""


async def names(scripts: Scripts) -> frozenset[str]:
    """Return the names of the troubles that last."""
    known: Any = await scripts.redis.hkeys(keys.TROUBLES)
    return frozenset(known)


async def every(scripts: Scripts) -> list[Trouble]:
    """Return the troubles that last, in the order of their names."""
    raw: Any = await scripts.redis.hgetall(keys.TROUBLES)
    stored = (json.loads(raw[name]) for name in sorted(raw))
    return [Trouble(each["type"], each["at"], each["fields"]) for each in stored]


async def report(scripts: Scripts, found: Troubles) -> list[str]:
    """Emit the events of new troubles, forget those that are over; return the names of the new ones. Leader only."""
    known = await names(scripts)
    new, over = found.keys() - known, known - found.keys()
    if not new and not over:
        return []
    now_ms = await scripts.now_ms()
    async with scripts.redis.pipeline(transaction=True) as pipe:
        if over:
            pipe.hdel(keys.TROUBLES, *over)
        for name in sorted(new):
            trouble = found[name]
            fields = stream_events.encode(trouble.payload)
            pipe.hset(keys.TROUBLES, name, json.dumps({"type": trouble.kind, "at": now_ms, "fields": fields}))
            if not trouble.told:
                event_stream.emit_in(pipe, trouble.kind, trouble.payload, at_ms=now_ms)
        await pipe.execute()
    return sorted(new)
