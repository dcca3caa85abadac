"""What a phone's health is judged by: strangers and their answers, messages by day; and whose health is poor."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from redis.asyncio.client import Pipeline

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts

_COUNTED: Final = ("sent", "delivered", "read", "refused")


@dataclass(frozen=True, slots=True)
class StrangerCounts:
    """Strangers that a phone wrote to within a span, how many of them answered, and how many it wrote to in a row."""

    written: int
    answered: int
    in_a_row: int
    counted_since_ms: int
    """Since when they are counted; 0 if the phone has sent nothing since."""


@dataclass(frozen=True, slots=True)
class DayTotals:
    """The messages of a phone on one day."""

    sent: int
    delivered: int
    read: int
    refused: int


@dataclass(frozen=True, slots=True)
class PoorSignal:
    """Why a phone's health is poor: `count` of `of`. `session` is one of its sessions."""

    session: str
    signal: str
    count: int
    of: int


async def strangers(scripts: Scripts, phone: str, span_ms: tuple[int, int]) -> StrangerCounts:
    """Count the strangers that a phone first wrote to within a span."""
    pipe = scripts.redis.pipeline(transaction=True)  # one who answers moves from one to the other
    for zset in (keys.unanswered(phone), keys.answered(phone)):
        pipe.zcount(zset, *span_ms)
    pipe.hmget(keys.pace(phone), ["strangers", "counted_since"])
    silent, answered, (in_a_row, since_ms) = await pipe.execute()
    return StrangerCounts(silent + answered, answered, int(in_a_row or 0), int(since_ms or 0))


async def sessions_of(scripts: Scripts, phone: str) -> list[str]:
    """Return the sessions that are linked to a phone."""
    ids: Any = await scripts.redis.smembers(keys.sessions_of_phone(phone))
    return sorted(ids)


async def by_day(scripts: Scripts, sessions: Collection[str], days: Sequence[str]) -> list[DayTotals]:
    """Return what the sessions of a phone did on each of these days, in one round trip."""
    names = [keys.stats(session, day) for day in days for session in sessions]
    rows = await scripts.each(lambda pipe, key: pipe.hmget(key, _COUNTED), names)
    each = len(sessions)
    return [
        DayTotals(*(sum(int(row[at] or 0) for row in rows[first : first + each]) for at in range(len(_COUNTED))))
        for first in range(0, len(rows), each)
    ]


async def replace_poor(scripts: Scripts, found: Mapping[str, PoorSignal]) -> None:
    """Record the phones whose health is poor, and no others. Leader only."""
    stored: dict[Any, Any] = {
        phone: json.dumps({"session": each.session, "signal": each.signal, "count": each.count, "of": each.of})
        for phone, each in found.items()
    }
    pipe: Pipeline = scripts.redis.pipeline(transaction=True)
    pipe.delete(keys.POOR_HEALTH)
    if stored:
        pipe.hset(keys.POOR_HEALTH, mapping=stored)
    await pipe.execute()


async def poor(scripts: Scripts) -> dict[str, PoorSignal]:
    """Return the phones whose health is poor, and why."""
    raw: Any = await scripts.redis.hgetall(keys.POOR_HEALTH)
    return {phone: PoorSignal(**json.loads(stored)) for phone, stored in sorted(raw.items())}
