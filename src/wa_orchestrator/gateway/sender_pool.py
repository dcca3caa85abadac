"""The fleet as the gateway sees it: who can send, at what pace, with how much room; never older than a second.

It serves choices and estimates only. Limits, opt-outs and idempotency are decided by `admit_messages.lua`.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heapreplace
from time import monotonic
from typing import Final, NamedTuple

from wa_orchestrator.domain.ids import MessageId
from wa_orchestrator.domain.pacing import Forecast, Pace, Wait, day_bounds_ms, hours_bounds_ms
from wa_orchestrator.domain.routing import Readiness, Why
from wa_orchestrator.domain.session import CAN_SEND
from wa_orchestrator.gateway.redis_access import Command, RedisAccess
from wa_orchestrator.queue_forecast import Facts, forecast_of
from wa_orchestrator.session_pace import Holds, holds_on, pace_of, zone_of
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys
from wa_orchestrator.store.records import PhonePace, Session, session_from

FRESH_S: Final = 1.0
#: Before a request is refused for want of a sender, a look older than this is repeated.
RECENT_S: Final = 0.05
#: A forecast is kept while its facts stay the same, but time passes all the same.
_FORECAST_S: Final = 5.0
#: A session grows older and is trusted more; nobody notices it within a minute.
_RULES_MS: Final = 60_000


@dataclass(slots=True)
class Sender:
    """A session and the numbers of its phone. `room_today` goes down as messages are taken until the next look."""

    session: Session
    pace: Pace
    holds: tuple[Wait, ...]
    day_ms: tuple[int, int]
    reopens_ms: int
    """When the next day's hours begin."""
    phone: PhonePace
    waiting: int = 0
    sent_today: int = 0
    room_today: int = 0
    forecast: "Forecast | None" = None
    """The etas of its queue, once somebody asked."""
    asking: "asyncio.Task[Forecast] | None" = None
    """Finds them out; many who ask at once share it."""

    def asked(self, asking: "asyncio.Task[Forecast]") -> None:
        """Note that it was found out; where it was not, the next one who wants to know asks anew."""
        if asking.cancelled() or asking.exception() is not None:
            self.asking = None

    @property
    def version(self) -> tuple[object, ...]:
        """What the etas depend on, beside the time."""
        return (self.pace, self.holds, self.session.status, self.sent_today, self.phone)

    @property
    def readiness(self) -> Readiness:
        """Whether it can send now."""
        if self.session.status not in CAN_SEND or not self.session.phone:
            return Readiness.OFFLINE
        return Readiness.HELD if self.holds else Readiness.READY


@dataclass(frozen=True, slots=True)
class Choice:
    """The sender of a message, and why it is this one."""

    sender: Sender
    why: Why

    def reserve(self) -> None:
        """Count the message as taken at once, so that many who choose in the same moment do not all choose this one."""
        self.sender.room_today -= 1

    def give_back(self) -> None:
        """It was not taken after all."""
        self.sender.room_today += 1


class Roomiest:
    """Finds the sender with the most room. Room goes down one message at a time, so a heap is right but for its top."""

    def __init__(self, senders: Sequence[Sender]) -> None:
        self._heap = [(-sender.room_today, sender.session.id, sender) for sender in senders]
        heapify(self._heap)

    def find(self) -> Sender | None:
        """Give the sender with the most room; of equals the first by name."""
        while self._heap:
            noted, name, sender = self._heap[0]
            if noted == -sender.room_today:
                return sender
            heapreplace(self._heap, (-sender.room_today, name, sender))
        return None


@dataclass(slots=True)
class PoolSnapshot:
    """One look at all sessions."""

    senders: dict[str, Sender]
    by_phone: dict[str, list[Sender]]
    roomiest: Roomiest
    holds: Holds
    taken_at_ms: int
    taken_at_s: float
    choices: dict[tuple[str | None, str | None], Choice] = field(default_factory=dict)
    """What was chosen for the names that clients gave: a session, a phone."""

    def now_ms(self) -> int:
        """Redis' time, as well as it is known without asking."""
        return self.taken_at_ms + int((monotonic() - self.taken_at_s) * 1000)


@dataclass(frozen=True, slots=True)
class _Rules:
    """What follows from a session's record alone, and for how long: its pace and its day."""

    raw: Mapping[str, str]
    session: Session
    pace: Pace
    day_ms: tuple[int, int]
    reopens_ms: int
    good_until_ms: int


class _Noted(NamedTuple):
    """Etas that were worked out, from what and when."""

    version: tuple[object, ...]
    at_s: float
    forecast: Forecast


class SenderPool:
    """Keeps one look at the fleet and renews it when somebody asks and it is old."""

    def __init__(self, redis: RedisAccess, settings: Settings) -> None:
        self._redis = redis
        self._settings = settings
        self._fleet: PoolSnapshot | None = None
        self._look: asyncio.Task[PoolSnapshot] | None = None
        self._rules: dict[str, _Rules] = {}
        self._forecasts: dict[str, _Noted] = {}

    async def current(self, *, fresh_s: float = FRESH_S) -> PoolSnapshot:
        """Give a look at the fleet that is at most this old. Many who ask at once share one look."""
        fleet = self.at_hand(fresh_s)
        if fleet is not None:
            return fleet
        if self._look is None:
            self._look = asyncio.get_running_loop().create_task(self._take_look())
            self._look.add_done_callback(self._looked)
        return await asyncio.shield(self._look)

    def at_hand(self, fresh_s: float = FRESH_S) -> PoolSnapshot | None:
        """Give the last look at the fleet unless it is older than this."""
        fleet = self._fleet
        if fleet is None or monotonic() - fleet.taken_at_s >= fresh_s:
            return None
        return fleet

    async def forecast(self, fleet: PoolSnapshot, sender: Sender) -> Forecast:
        """Give the etas of a sender's queue."""
        known = self.forecast_at_hand(sender)
        if known is not None:
            return known
        if sender.asking is None:
            sender.asking = asyncio.get_running_loop().create_task(self._work_out(fleet, sender))
            sender.asking.add_done_callback(sender.asked)
        return await asyncio.shield(sender.asking)

    def forecast_at_hand(self, sender: Sender) -> Forecast | None:
        """Give the etas of a sender's queue if nothing needs to be asked for them."""
        if sender.forecast is None:
            noted = self._forecasts.get(sender.session.id)
            now_s = monotonic()
            if noted is not None and now_s - noted.at_s < _FORECAST_S and noted.version == sender.version:
                sender.forecast = noted.forecast
        return sender.forecast

    async def _work_out(self, fleet: PoolSnapshot, sender: Sender) -> Forecast:
        now_s = monotonic()
        since_ms = min(sender.day_ms[0], fleet.taken_at_ms - 60_000)
        raw = await self._redis.call("ZRANGEBYSCORE", keys.sent(sender.session.phone), since_ms, "+inf", "WITHSCORES")
        phone = replace(sender.phone, sent=tuple(int(score) for _, score in raw))
        facts = Facts(fleet.taken_at_ms, phone, fleet.holds)
        sender.forecast = forecast_of(self._settings, sender.session, facts)
        self._forecasts[sender.session.id] = _Noted(sender.version, now_s, sender.forecast)
        return sender.forecast

    def _looked(self, look: asyncio.Task[PoolSnapshot]) -> None:
        self._look = None
        if not look.cancelled() and look.exception() is None:
            self._fleet = look.result()

    async def _take_look(self) -> PoolSnapshot:
        clock = await self._redis.run("now", [], [])
        taken_at_s = monotonic()
        ids, raw_holds, raw_waiting = await self._redis.many(
            [("SMEMBERS", keys.SESSIONS_ALL), ("HGETALL", keys.HOLDS), ("HGETALL", keys.GATEWAY_WAITING)]
        )
        holds: Holds = {name: json.loads(text) for name, text in raw_holds.items()}
        raws = await self._redis.many([("HGETALL", keys.session(each)) for each in sorted(ids)])
        now_ms = int(clock[1])
        rules = [self._rules_of(raw, now_ms) for raw in raws if raw]
        self._rules = {each.session.id: each for each in rules}
        senders = await self._senders(rules, holds, raw_waiting, now_ms)
        by_phone: dict[str, list[Sender]] = {}
        for sender in senders:
            by_phone.setdefault(sender.session.phone, []).append(sender)
        self._forecasts = {name: each for name, each in self._forecasts.items() if name in set(ids)}
        return PoolSnapshot(
            {sender.session.id: sender for sender in senders},
            by_phone,
            Roomiest([sender for sender in senders if sender.readiness is Readiness.READY]),
            holds,
            now_ms,
            taken_at_s,
        )

    def _rules_of(self, raw: Mapping[str, str], now_ms: int) -> _Rules:
        """Work out what follows from a session's record; most looks find the same record again."""
        known = self._rules.get(raw["id"])
        if known is not None and known.raw == raw and now_ms < known.good_until_ms:
            return known
        session = session_from(raw)
        zone = zone_of(self._settings, session)
        pace, day = pace_of(self._settings, session, now_ms), day_bounds_ms(now_ms, zone)
        reopens_ms = hours_bounds_ms(pace, day[1], zone)[0]
        return _Rules(raw, session, pace, day, reopens_ms, min(day[1], now_ms + _RULES_MS))

    async def _senders(
        self, rules: Sequence[_Rules], holds: Holds, waiting: Mapping[str, str], now_ms: int
    ) -> list[Sender]:
        """Put what is known of the sessions and their phones together."""
        commands: list[Command] = []
        for each in rules:
            phone = each.session.phone
            commands += [
                ("HMGET", keys.pace(phone), *_PACE),
                ("ZCARD", keys.queue(phone)),
                ("ZCOUNT", keys.sent(phone), each.day_ms[0], "+inf"),
            ]
        answers = await self._redis.many(commands)
        senders = []
        for at, each in enumerate(rules):
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
                    waits,
                    int(sent_today),
                    each.pace.per_day - int(sent_today) - waits,
                )
            )
        return senders


_PACE: Final = ("in_flight", "silent_until", "lock_until", "burst_until", "service_ms")


def _phone_pace(raw: Sequence[str | None]) -> PhonePace:
    silent_until, lock_until, burst_until, service_ms = (int(float(each or 0)) for each in raw[1:])
    return PhonePace(MessageId(raw[0] or ""), silent_until, lock_until, burst_until, service_ms, sent=())
