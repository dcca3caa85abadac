"""Unknown parts of WhatsApp's protocol, counted over all sessions."""

from dataclasses import dataclass
from typing import Any, Final

from wa_orchestrator.domain.workers import drift
from wa_orchestrator.domain.workers.drift import KEPT_MS, Shape, Sighting
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts

#: Of all workers together: a compromised worker that makes up names must not fill Redis.
MOST_SHAPES: Final = 500


@dataclass(frozen=True, slots=True)
class DriftRecord:
    """A shape: since when, when last, how often, and by which sessions it was met."""

    shape: Shape
    first_at_ms: int
    last_at_ms: int
    count: int
    sessions: frozenset[str]


async def record(scripts: Scripts, session: str, sighting: Sighting) -> bool:
    """Count a sighting; whether the shape was met for the first time in 30 days."""
    shape = str(sighting.shape)
    names = [keys.DRIFT, keys.drift(shape), keys.drift_sessions(shape)]
    args: list[str | int | float] = [shape, session, sighting.count, KEPT_MS, MOST_SHAPES]
    return await scripts.whether("record_drift", names, args, new=True, known=False, full=False)


async def everything(scripts: Scripts) -> list[DriftRecord]:
    """Return all shapes of the last 30 days, the newest first."""
    names: Any = await scripts.redis.zrangebyscore(keys.DRIFT, await scripts.now_ms() - KEPT_MS, "+inf")
    pipe = scripts.redis.pipeline(transaction=False)
    for name in names:
        pipe.hgetall(keys.drift(name))
        pipe.smembers(keys.drift_sessions(name))
    replies: list[Any] = await pipe.execute() if names else []
    found = [
        DriftRecord(
            shape,
            int(raw.get("first_at", 0)),
            int(raw.get("last_at", 0)),
            int(raw.get("count", 0)),
            frozenset(sessions),
        )
        for name, raw, sessions in zip(names, replies[::2], replies[1::2], strict=True)
        if raw and (shape := drift.parse(name)) is not None
    ]
    return sorted(found, key=lambda each: (-each.first_at_ms, str(each.shape)))
