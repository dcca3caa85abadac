"""Cached snapshot of all sessions: readiness, pace and room of each; at most a second old.

For choosing senders and estimating etas only. Limits, opt-outs and idempotency are decided by `admit_messages.lua`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heapreplace
from time import monotonic
from typing import Final, NamedTuple

from wa_orchestrator.domain.ids import MessageId
from wa_orchestrator.domain.pacing.decision import Wait
from wa_orchestrator.domain.pacing.forecast import Forecast
from wa_orchestrator.domain.pacing.hours import day_bounds_ms, hours_bounds_ms
from wa_orchestrator.domain.pacing.limits import MINUTE_MS, Pace
from wa_orchestrator.domain.routing import Readiness, Why
from wa_orchestrator.errors import Refused
from wa_orchestrator.gateway.redis_access import Command, RedisAccess
from wa_orchestrator.messages.queue_forecast import Facts, forecast_of
from wa_orchestrator.messages.session_pace import Holds, holds_on, pace_of, readiness_with, zone_of
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys
from wa_orchestrator.store.messages.holds import holds_from
from wa_orchestrator.store.record_codec import decode
from wa_orchestrator.store.records import PhonePace, Session

FRESH_S: Final = 1.0
#: Before a request is refused for lack of a sender, a snapshot older than this is renewed.
RECENT_S: Final = 0.05
#: A forecast is reused while its facts stay the same, but not for longer than this.
_FORECAST_S: Final = 5.0
#: How long the limits of a session are reused: trust grows with its age, but slowly.
_LIMITS_MS: Final = 60_000


@dataclass(slots=True)
class Sender:
    """A session and the figures of its phone. `room_today` decreases with each message accepted since the snapshot."""

    session: Session
    pace: Pace
    holds: tuple[Wait, ...]
    day_ms: tuple[int, int]
    reopens_ms: int
    """When the next day's hours begin."""
    phone: PhonePace
    sent_today: int = 0
    room_today: int = 0
    forecast: Forecast | None = None
    """The etas of its queue, once they were needed."""
    computing: asyncio.Task[Forecast] | None = None
    """Computes the forecast; concurrent requests share it."""

    def computed(self, task: asyncio.Task[Forecast]) -> None:
        """Let the next request try again if the forecast could not be computed."""
        if task.cancelled() or task.exception() is not None:
            self.computing = None

    @property
    def version(self) -> tuple[object, ...]:
        """What the forecast depends on, besides the time."""
        return (self.pace, self.holds, self.session.status, self.sent_today, self.phone)

    @property
    def readiness(self) -> Readiness:
        """Whether it can send now."""
        return readiness_with(self.session, self.holds)


@dataclass(frozen=True, slots=True)
class Choice:
    """The sender of a message, and why it is this one."""

    sender: Sender
    why: Why

    def reserve(self) -> None:
        """Count the message at once, so that concurrent requests do not all choose this sender."""
        self.sender.room_today -= 1

    def unreserve(self) -> None:
        """Undo `reserve`: the message was not accepted."""
        self.sender.room_today += 1


class RoomHeap:
    """Finds the sender with the most room. Room only decreases, so only the top of the heap needs to be checked."""

    def __init__(self, senders: Sequence[Sender]) -> None:
        self._heap = [(-sender.room_today, sender.session.id, sender) for sender in senders]
        heapify(self._heap)

    def top(self) -> Sender | None:
        """Return the sender with the most room; ties go to the first id."""
        while self._heap:
            known, name, sender = self._heap[0]
            if known == -sender.room_today:
                return sender
            heapreplace(self._heap, (-sender.room_today, name, sender))
        return None


@dataclass(slots=True)
class PoolSnapshot:
    """All sessions as they were at one moment."""

    senders: dict[str, Sender]
    by_phone: dict[str, list[Sender]]
    room: RoomHeap
    holds: Holds
    taken_at_ms: int
    taken_at_s: float
    choices: dict[tuple[str | None, str | None], Choice] = field(default_factory=dict)
    """The choices for each session and phone that clients named."""

    def now_ms(self) -> int:
        """Return Redis' time, estimated without a call."""
        return self.taken_at_ms + int((monotonic() - self.taken_at_s) * 1000)


@dataclass(frozen=True, slots=True)
class _Limits:
    """What follows from a session's record alone, and until when it is valid."""

    raw: Mapping[str, str]
    session: Session
    pace: Pace
    day_ms: tuple[int, int]
    reopens_ms: int
    valid_until_ms: int


class _CachedForecast(NamedTuple):
    """A forecast, with when and from what it was computed."""

    version: tuple[object, ...]
    at_s: float
    forecast: Forecast


class SenderPool:
    """Keeps one snapshot of the sessions and renews it on demand when it is old."""

    def __init__(self, redis: RedisAccess, settings: Settings) -> None:
        self._redis = redis
        self._settings = settings
        self._snapshot: PoolSnapshot | None = None
        self._refresh: asyncio.Task[PoolSnapshot] | None = None
        self._limits: dict[str, _Limits] = {}
        self._forecasts: dict[str, _CachedForecast] = {}

    async def current(self, *, fresh_s: float = FRESH_S) -> PoolSnapshot:
        """Return a snapshot that is at most `fresh_s` old. Concurrent requests share one refresh."""
        snapshot = self.cached(fresh_s)
        if snapshot is not None:
            return snapshot
        if self._refresh is None:
            self._refresh = asyncio.get_running_loop().create_task(self._read())
            self._refresh.add_done_callback(self._refreshed)
        return await asyncio.shield(self._refresh)

    async def find(self, session_id: str) -> tuple[PoolSnapshot, Sender]:
        """Return a session and the recent snapshot it is in; raises if there is no such session."""
        snapshot = await self.current(fresh_s=RECENT_S)
        if session_id not in snapshot.senders:
            text = f"There is no session {session_id}. GET /api/sessions lists them."
            raise Refused("NO_SUCH_SESSION", text, 404, sessionId=session_id)
        return snapshot, snapshot.senders[session_id]

    def cached(self, fresh_s: float = FRESH_S) -> PoolSnapshot | None:
        """Return the last snapshot unless it is older than `fresh_s`."""
        snapshot = self._snapshot
        if snapshot is None or monotonic() - snapshot.taken_at_s >= fresh_s:
            return None
        return snapshot

    async def forecast(self, snapshot: PoolSnapshot, sender: Sender) -> Forecast:
        """Return the forecast of a sender's queue."""
        known = self.cached_forecast(sender)
        if known is not None:
            return known
        if sender.computing is None:
            sender.computing = asyncio.get_running_loop().create_task(self._compute(snapshot, sender))
            sender.computing.add_done_callback(sender.computed)
        return await asyncio.shield(sender.computing)

    def cached_forecast(self, sender: Sender) -> Forecast | None:
        """Return the forecast of a sender's queue if it needs no call to Redis."""
        if sender.forecast is None:
            known = self._forecasts.get(sender.session.id)
            if known is not None and monotonic() - known.at_s < _FORECAST_S and known.version == sender.version:
                sender.forecast = known.forecast
        return sender.forecast

    async def _compute(self, snapshot: PoolSnapshot, sender: Sender) -> Forecast:
        now_s = monotonic()
        since_ms = min(sender.day_ms[0], snapshot.taken_at_ms - MINUTE_MS)
        raw = await self._redis.call("ZRANGEBYSCORE", keys.sent(sender.session.phone), since_ms, "+inf", "WITHSCORES")
        phone = replace(sender.phone, sent=tuple(int(score) for _, score in raw))
        facts = Facts(snapshot.taken_at_ms, phone, snapshot.holds)
        sender.forecast = forecast_of(self._settings, sender.session, facts)
        self._forecasts[sender.session.id] = _CachedForecast(sender.version, now_s, sender.forecast)
        return sender.forecast

    def _refreshed(self, refresh: asyncio.Task[PoolSnapshot]) -> None:
        self._refresh = None
        if not refresh.cancelled() and refresh.exception() is None:
            self._snapshot = refresh.result()

    async def _read(self) -> PoolSnapshot:
        clock = await self._redis.run("now", [], [])
        taken_at_s = monotonic()
        ids, raw_holds, raw_waiting = await self._redis.many(
            [("SMEMBERS", keys.SESSIONS_ALL), ("HGETALL", keys.HOLDS), ("HGETALL", keys.GATEWAY_WAITING)]
        )
        holds: Holds = holds_from(raw_holds)
        raws = await self._redis.many([("HGETALL", keys.session(each)) for each in sorted(ids)])
        now_ms = int(clock[1])
        limits = [self._limits_of(raw, now_ms) for raw in raws if raw]
        self._limits = {each.session.id: each for each in limits}
        senders = await self._read_senders(limits, holds, raw_waiting, now_ms)
        by_phone: dict[str, list[Sender]] = {}
        for sender in senders:
            by_phone.setdefault(sender.session.phone, []).append(sender)
        self._forecasts = {name: each for name, each in self._forecasts.items() if name in set(ids)}
        return PoolSnapshot(
            {sender.session.id: sender for sender in senders},
            by_phone,
            RoomHeap([sender for sender in senders if sender.readiness is Readiness.READY]),
            holds,
            now_ms,
            taken_at_s,
        )

    def _limits_of(self, raw: Mapping[str, str], now_ms: int) -> _Limits:
        """Return what follows from a session's record; it is computed again only if the record has changed."""
        known = self._limits.get(raw["id"])
        if known is not None and known.raw == raw and now_ms < known.valid_until_ms:
            return known
        session = decode(Session, raw)
        zone = zone_of(self._settings, session)
        pace, day = pace_of(self._settings, session, now_ms), day_bounds_ms(now_ms, zone)
        reopens_ms = hours_bounds_ms(pace, day[1], zone)[0]
        return _Limits(raw, session, pace, day, reopens_ms, min(day[1], now_ms + _LIMITS_MS))

    async def _read_senders(
        self, limits: Sequence[_Limits], holds: Holds, waiting: Mapping[str, str], now_ms: int
    ) -> list[Sender]:
        """Read the figures of the sessions' phones."""
        commands: list[Command] = []
        for each in limits:
            phone = each.session.phone
            commands += [
                ("HMGET", keys.pace(phone), *_PACE),
                ("ZCARD", keys.queue(phone)),
                ("ZCOUNT", keys.sent(phone), each.day_ms[0], "+inf"),
            ]
        answers = await self._redis.many(commands)
        senders = []
        for at, each in enumerate(limits):
            raw_pace, queued, sent_today = answers[3 * at : 3 * at + 3]
            waits = int(queued) + int(waiting.get(each.session.phone, 0))
            senders.append(
                Sender(
                    each.session,
                    each.pace,
                    holds_on(holds, each.session, now_ms) if holds else (),
                    each.day_ms,
                    each.reopens_ms,
                    _phone_pace(raw_pace),
                    int(sent_today),
                    each.pace.per_day - int(sent_today) - waits,
                )
            )
        return senders


_PACE: Final = ("in_flight", "silent_until", "silence_ms", "lock_until", "burst_until", "service_ms")


def _phone_pace(raw: Sequence[str | None]) -> PhonePace:
    silent_until, silence_ms, lock_until, burst_until, service_ms = (int(float(each or 0)) for each in raw[1:])
    return PhonePace(MessageId(raw[0] or ""), silent_until, silence_ms, lock_until, burst_until, service_ms, sent=())
