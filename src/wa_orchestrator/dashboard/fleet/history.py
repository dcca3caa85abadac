"""History: availability of sessions, messages per hour, queue depth, checks of proxies."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import structlog
from redis.asyncio.client import Pipeline

from wa_orchestrator.context import Context
from wa_orchestrator.dashboard.fleet.attention import FailedMessages
from wa_orchestrator.dashboard.fleet.availability import DAY_MS, QUARTER_MS, Change, Day, day_of
from wa_orchestrator.dashboard.html.charts import QUARTERS
from wa_orchestrator.domain.session import State
from wa_orchestrator.domain.stream_events import EventType
from wa_orchestrator.loop import Loop
from wa_orchestrator.store import event_stream, keys, records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.records import Entry, Session

__all__ = ["DAY_MS", "HOUR_MS", "HistoryRecorder", "days", "depths", "failed_lately", "health", "per_hour"]
HOUR_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000
HOURS_SHOWN: Final = 24
_KEEP_HOURS: Final = 48
_KEEP_CHECKS: Final = 120
_HEALTH_S: Final = 7 * 24 * 3600
_BATCH: Final = 1000
_ROUND_S: Final = 2.0
#: Counted per hour.
_COUNTED: Final = frozenset({EventType.MESSAGE_SENT, EventType.MESSAGE_FAILED})

log = structlog.get_logger(__name__)


async def days(scripts: Scripts, sessions: Sequence[Session], now_ms: int) -> dict[str, Day]:
    """Return the last 24 hours of these sessions, from their event streams."""
    pipe = scripts.redis.pipeline(transaction=False)
    for session in sessions:
        pipe.xrange(keys.session_events(session.id), min="-", max="+", count=600)
    replies: list[Any] = await pipe.execute() if sessions else []
    return {session.id: day_of(_changes(entries), now_ms) for session, entries in zip(sessions, replies, strict=True)}


def _changes(entries: Sequence[tuple[str, Mapping[str, str]]]) -> list[Change]:
    found = []
    for cursor, fields in entries:
        kind = fields.get("type", "")
        state = kind.removeprefix("session.")
        if kind.startswith("session.") and state in tuple(State):
            at_ms = int(float(fields.get("at") or cursor.partition("-")[0]))
            found.append(Change(at_ms, State(state), fields.get("reason", "")))
    return found


async def per_hour(scripts: Scripts, now_ms: int) -> tuple[list[int], list[int]]:
    """Return how many messages were sent and failed in each of the last 24 hours, the current hour last."""
    raw: Any = await scripts.redis.hgetall(keys.DASHBOARD_HOURS)
    last = now_ms // HOUR_MS
    hours = range(last - HOURS_SHOWN + 1, last + 1)
    return (
        [int(raw.get(f"{hour}:sent", 0)) for hour in hours],
        [int(raw.get(f"{hour}:failed", 0)) for hour in hours],
    )


async def failed_lately(scripts: Scripts, now_ms: int) -> FailedMessages:
    """Return how many messages failed since the start of the previous hour."""
    _, failed = await per_hour(scripts, now_ms)
    return FailedMessages(sum(failed[-2:]), (now_ms // HOUR_MS - 1) * HOUR_MS)


async def depths(scripts: Scripts, now_ms: int) -> list[int]:
    """Return the deepest queue in each quarter hour of the last 24 hours; -1 where there is no sample."""
    lines: Any = await scripts.redis.lrange(keys.DASHBOARD_QUEUE, 0, -1)
    begins = now_ms - DAY_MS
    found = [-1] * QUARTERS
    for line in lines:
        at_ms, _, depth = line.partition(":")
        place = (int(at_ms) - begins) // QUARTER_MS
        if 0 <= place < QUARTERS:
            found[place] = max(found[place], int(depth))
    return found


async def health(scripts: Scripts, proxy_ids: Sequence[str]) -> dict[str, list[int]]:
    """Return the latencies of the last checks of these proxies, oldest first; -1 for a failed check."""
    pipe = scripts.redis.pipeline(transaction=False)
    for proxy_id in proxy_ids:
        pipe.lrange(keys.proxy_health(proxy_id), 0, -1)
    replies: list[Any] = await pipe.execute() if proxy_ids else []
    return {
        proxy_id: [int(line.rpartition(":")[2]) for line in lines]
        for proxy_id, lines in zip(proxy_ids, replies, strict=True)
    }


class HistoryRecorder:
    """Counts messages before their events are trimmed, and records queue depth and checks of proxies.

    Any number may run: the counts of a batch and its cursor are written together or not at all.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._scripts = context.scripts

    async def run(self) -> None:
        """Run until cancelled."""
        await Loop("dashboard_history", self).run()

    async def step(self) -> float:
        """Count one batch of events and record the proxies' checks. Return the seconds until the next one."""
        counted = await self._count()
        await self._record_checks()
        await self._record_queue()
        return 0 if counted >= _BATCH else _ROUND_S

    async def _record_queue(self) -> None:
        redis = self._scripts.redis
        now_ms = await self._scripts.now_ms()
        last: Any = await redis.lindex(keys.DASHBOARD_QUEUE, -1)
        if last and now_ms - int(last.partition(":")[0]) < _MINUTE_MS:
            return
        waiting: Any = await redis.hmget(keys.COUNTS, "queued", "scheduled", "sending")
        pipe = redis.pipeline(transaction=True)
        pipe.rpush(keys.DASHBOARD_QUEUE, f"{now_ms}:{sum(int(each or 0) for each in waiting)}")
        pipe.ltrim(keys.DASHBOARD_QUEUE, -DAY_MS // _MINUTE_MS, -1)
        await pipe.execute()

    async def _count(self) -> int:
        entries = await event_stream.consume(self._scripts, keys.DASHBOARD_CURSOR, _add_counts, most=_BATCH, start="0")
        if entries:
            await self._trim_hours(int(entries[-1].cursor.partition("-")[0]))
        return len(entries)

    async def _trim_hours(self, now_ms: int) -> None:
        fields: Any = await self._scripts.redis.hkeys(keys.DASHBOARD_HOURS)
        old = [field for field in fields if int(field.partition(":")[0]) < now_ms // HOUR_MS - _KEEP_HOURS]
        if old:
            await self._scripts.redis.hdel(keys.DASHBOARD_HOURS, *old)

    async def _record_checks(self) -> None:
        found = await records.proxies(self._scripts)
        pipe = self._scripts.redis.pipeline(transaction=False)
        for proxy in found:
            pipe.lindex(keys.proxy_health(proxy.id), -1)
        last: list[Any] = await pipe.execute() if found else []
        pipe = self._scripts.redis.pipeline(transaction=False)
        for proxy, known in zip(found, last, strict=True):
            if not proxy.checked_at or str(known or "").partition(":")[0] == str(proxy.checked_at):
                continue
            result = -1 if proxy.last_error else proxy.latency_ms or 0
            key = keys.proxy_health(proxy.id)
            pipe.rpush(key, f"{proxy.checked_at}:{result}")
            pipe.ltrim(key, -_KEEP_CHECKS, -1)
            pipe.expire(key, _HEALTH_S)
        await pipe.execute()


def _add_counts(pipe: Pipeline, entries: Sequence[Entry]) -> None:
    for entry in entries:
        kind = entry.fields.get("type", "")
        if kind in _COUNTED:
            hour = int(float(entry.fields["at"])) // HOUR_MS
            pipe.hincrby(keys.DASHBOARD_HOURS, f"{hour}:{kind.removeprefix('message.')}", 1)
