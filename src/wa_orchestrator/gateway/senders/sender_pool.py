"""Cached snapshot of all sessions: readiness, pace and room of each; at most a second old.

For choosing senders and estimating etas only. Limits, opt-outs and idempotency are decided by `admit_messages.lua`.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heapreplace
from time import monotonic
from typing import Final, NamedTuple

from wa_orchestrator.domain import number_health
from wa_orchestrator.domain.access.permissions import Reach
from wa_orchestrator.domain.messages.sender_policy import Readiness, Why
from wa_orchestrator.domain.number_health import NumberStanding
from wa_orchestrator.domain.pacing.decision import Wait
from wa_orchestrator.domain.pacing.forecast import Forecast
from wa_orchestrator.domain.pacing.limits import MINUTE_MS, Pace
from wa_orchestrator.errors import Refused
from wa_orchestrator.gateway.redis_access import RedisAccess
from wa_orchestrator.gateway.senders.fleet_reader import Fleet, FleetReader, KnownSession
from wa_orchestrator.messages.queue_forecast import Facts, forecast_of
from wa_orchestrator.messages.session_pace import Holds, holds_on, readiness_with, trust_of
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys
from wa_orchestrator.store.records import PhonePace, Session
from wa_orchestrator.store.sessions.labels import labels_of

FRESH_S: Final = 1.0
#: A snapshot that is in use is renewed from this age on.
_RENEW_S: Final = 0.5
#: Before a request is refused for lack of a sender, a snapshot older than this is renewed.
RECENT_S: Final = 0.05
#: A forecast is reused while its facts stay the same, but not for longer than this.
_FORECAST_S: Final = 5.0


_NO_REASON: Final = NumberStanding()


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
    standing: NumberStanding = _NO_REASON
    """What decides whether a message to a stranger gets a warning."""
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
        self._reader = FleetReader(redis, settings)
        self._snapshot: PoolSnapshot | None = None
        self._refresh: asyncio.Task[PoolSnapshot] | None = None
        self._forecasts: dict[str, _CachedForecast] = {}

    async def current(self, *, fresh_s: float = FRESH_S) -> PoolSnapshot:
        """Return a snapshot that is at most `fresh_s` old. Concurrent requests share one refresh."""
        snapshot = self.cached(fresh_s)
        if snapshot is not None:
            return snapshot
        return await asyncio.shield(self._renew())

    async def find(self, session_id: str, reach: Reach) -> tuple[PoolSnapshot, Sender]:
        """Return a session and the recent snapshot it is in; raises if there is no such session within reach."""
        snapshot = await self.current(fresh_s=RECENT_S)
        sender = snapshot.senders.get(session_id)
        if sender is None or not reach.includes(session_id, labels_of(sender.session)):
            text = f"There is no session {session_id}. GET /api/sessions lists them."
            raise Refused("NO_SUCH_SESSION", text, 404, sessionId=session_id)
        return snapshot, sender

    def cached(self, fresh_s: float = FRESH_S) -> PoolSnapshot | None:
        """Return the last snapshot unless it is older than `fresh_s`.

        One that is used and no longer new is renewed meanwhile, so that under load nobody waits for it.
        """
        snapshot = self._snapshot
        if snapshot is None or (age_s := monotonic() - snapshot.taken_at_s) >= fresh_s:
            return None
        if age_s >= _RENEW_S:
            self._renew()
        return snapshot

    def _renew(self) -> asyncio.Task[PoolSnapshot]:
        if self._refresh is None:
            self._refresh = asyncio.get_running_loop().create_task(self._read())
            self._refresh.add_done_callback(self._refreshed)
        return self._refresh

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
        fleet = await self._reader.read()
        senders: dict[str, Sender] = {each.session.id: _sender(each, fleet) for each in fleet.sessions}
        by_phone: dict[str, list[Sender]] = {}
        for sender in senders.values():
            by_phone.setdefault(sender.session.phone, []).append(sender)
        self._forecasts = {name: each for name, each in self._forecasts.items() if name in senders}
        ready = [sender for sender in senders.values() if sender.readiness is Readiness.READY]
        return PoolSnapshot(senders, by_phone, RoomHeap(ready), fleet.holds, fleet.now_ms, fleet.read_at_s)


def _sender(known: KnownSession, fleet: Fleet) -> Sender:
    session, pace, figures = known.session, known.pace, known.figures
    waits = figures.queued + int(fleet.waiting.get(session.phone, 0))
    return Sender(
        session,
        pace,
        holds_on(fleet.holds, session, fleet.now_ms) if fleet.holds else (),
        known.day_ms,
        known.reopens_ms,
        figures.pace,
        figures.sent_today,
        pace.per_day - figures.sent_today - waits,
        number_health.standing(
            trust_of(session, fleet.now_ms),
            session.first_connected_at,
            fleet.now_ms,
            strangers=figures.strangers,
            is_poor=session.phone in fleet.poor_health,
        ),
    )
