"""The fleet as the gateway sees it: who can send, at what pace, with how much room; never older than a second.

It serves choices and estimates only. What must be true (limits, opt-outs, idempotency) is decided by `accept.lua`.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import time
from typing import Any, Final
from zoneinfo import ZoneInfo

from wa_orchestrator.domain.because import Because
from wa_orchestrator.domain.pacing import (
    Hold,
    Override,
    Pace,
    Situation,
    Trust,
    day_bounds_ms,
    hours_bounds_ms,
    trust,
)
from wa_orchestrator.gateway.batching import Batcher
from wa_orchestrator.gateway.forecast import Forecast
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys
from wa_orchestrator.store.reading import session_from

FRESH_S: Final = 1.0
#: Before a request is refused for want of a sender, a look this old is repeated.
RECENT_S: Final = 0.05
#: A forecast is kept while its facts stay the same, but time passes all the same.
_FORECAST_S: Final = 5.0
_FOREVER_MS: Final = 4_000_000_000_000_000
_BAN_WORDS: Final = ("BANNED", "TEMPORARY_BAN")


@dataclass(slots=True)
class Sender:
    """A session and the numbers of its phone. `room_today` goes down as messages are taken until the next look."""

    session_id: str
    phone: str
    status: str
    label: str
    pace: Pace
    zone: ZoneInfo
    holds: tuple[Hold, ...]
    day_ms: tuple[int, int]
    reopens_ms: int
    """When the next day's hours begin."""
    waiting: int = 0
    sent_today: int = 0
    facts: tuple[int, ...] = ()
    """What a forecast depends on besides the messages sent: silent until, burst until, service, in flight."""
    room_today: int = 0

    @property
    def is_usable(self) -> bool:
        """Connected and not on hold."""
        return self.status == "connected" and not self.holds


@dataclass(slots=True)
class Fleet:
    """One look at all sessions."""

    senders: dict[str, Sender]
    by_phone: dict[str, list[Sender]]
    usable: list[Sender]
    taken_at_ms: int
    taken_at_s: float


class FleetView:
    """Keeps one look at the fleet and renews it when somebody asks and it is old."""

    def __init__(self, batcher: Batcher, settings: Settings) -> None:
        self._batcher = batcher
        self._settings = settings
        self._paces = {each: settings.pace(each) for each in Trust}
        self._fleet: Fleet | None = None
        self._look: asyncio.Task[Fleet] | None = None
        self._forecasts: dict[str, tuple[tuple[object, ...], float, Forecast]] = {}

    async def current(self, *, fresh_s: float = FRESH_S) -> Fleet:
        """Give a look at the fleet that is at most this old. Many who ask at once share one look."""
        fleet = self._fleet
        if fleet is not None and asyncio.get_running_loop().time() - fleet.taken_at_s < fresh_s:
            return fleet
        if self._look is None:
            self._look = asyncio.get_running_loop().create_task(self._take_look())
            self._look.add_done_callback(self._looked)
        return await asyncio.shield(self._look)

    def now_ms(self, fleet: Fleet) -> int:
        """Redis' time, as well as it is known without asking."""
        return fleet.taken_at_ms + int((asyncio.get_running_loop().time() - fleet.taken_at_s) * 1000)

    async def forecast(self, fleet: Fleet, sender: Sender) -> Forecast:
        """Give the etas of a sender's queue."""
        version = (sender.pace, sender.zone, sender.holds, sender.status, sender.sent_today, sender.facts)
        now_s = asyncio.get_running_loop().time()
        known = self._forecasts.get(sender.session_id)
        if known is not None and now_s - known[1] < _FORECAST_S and known[0] == version:
            return known[2]
        since_ms = min(sender.day_ms[0], fleet.taken_at_ms - 60_000)
        raw = await self._batcher.call("ZRANGEBYSCORE", keys.sent(sender.phone), since_ms, "+inf", "WITHSCORES")
        sent = [int(float(score)) for score in raw[1::2]]
        forecast = self._make_forecast(sender, sent, self.now_ms(fleet))
        self._forecasts[sender.session_id] = (version, now_s, forecast)
        return forecast

    def _make_forecast(self, sender: Sender, sent: Sequence[int], now_ms: int) -> Forecast:
        silent_until_ms, burst_until_ms, service_ms, _ = sender.facts or (0, 0, 0, 0)
        situation = Situation(
            sender.zone, sent, silent_until_ms, holds=sender.holds, online=sender.status == "connected"
        )
        pace = scaled(sender.pace, self._settings.time_scale)
        return Forecast(pace, situation, now_ms, service_ms=service_ms, burst_until_ms=burst_until_ms)

    def _looked(self, look: asyncio.Task[Fleet]) -> None:
        self._look = None
        if not look.cancelled() and look.exception() is None:
            self._fleet = look.result()

    async def _take_look(self) -> Fleet:
        now = self._batcher.run("now", [], [])
        basics = self._batcher.many(
            [("SMEMBERS", keys.SESSIONS_ALL), ("HGETALL", keys.HOLDS), ("HGETALL", keys.GATEWAY_WAITING)]
        )
        clock, (ids, raw_holds, raw_waiting) = await asyncio.gather(now, basics)
        now_ms, holds, waiting = int(clock[1]), _pairs(raw_holds), _pairs(raw_waiting)
        raws = await self._batcher.many([("HGETALL", keys.session(each)) for each in sorted(ids)])
        senders = [self._sender(_pairs(raw), holds, now_ms) for raw in raws if raw]
        await self._measure([sender for sender in senders if sender.phone], waiting)
        by_phone: dict[str, list[Sender]] = {}
        for sender in senders:
            by_phone.setdefault(sender.phone, []).append(sender)
        self._forecasts = {name: each for name, each in self._forecasts.items() if name in set(ids)}
        return Fleet(
            {sender.session_id: sender for sender in senders},
            by_phone,
            [sender for sender in senders if sender.is_usable and sender.phone],
            now_ms,
            asyncio.get_running_loop().time(),
        )

    def _sender(self, raw: Mapping[str, str], holds: Mapping[str, str], now_ms: int) -> Sender:
        session = session_from(raw)
        zone = ZoneInfo(raw.get("timezone") or self._settings.timezone)
        preset = self._paces[trust(session.first_connected_at or None, now_ms)]
        pace = read_override(raw.get("limits", "")).onto(preset)
        day = day_bounds_ms(now_ms, zone)
        fields = ("all", f"session:{session.id}", f"group:{session.label}")
        return Sender(
            session.id,
            session.phone,
            session.status,
            session.label,
            pace,
            zone,
            tuple(hold for name in fields if (hold := read_hold(holds.get(name), now_ms)) is not None),
            day,
            max(day[1], hours_bounds_ms(pace, day[1], zone)[0]),
        )

    async def _measure(self, senders: Sequence[Sender], waiting: Mapping[str, str]) -> None:
        """Fill in what is known of the senders' phones."""
        commands: list[tuple[str | int, ...]] = []
        for sender in senders:
            commands += [
                ("HMGET", keys.pace(sender.phone), "silent_until", "burst_until", "service_ms", "in_flight"),
                ("ZCARD", keys.queue(sender.phone)),
                ("ZCOUNT", keys.sent(sender.phone), sender.day_ms[0], "+inf"),
            ]
        answers = await self._batcher.many(commands)
        for sender, pace, queued, sent in zip(senders, answers[::3], answers[1::3], answers[2::3], strict=True):
            silent_until, burst_until, service, in_flight = pace
            sender.facts = (*(int(float(each or 0)) for each in (silent_until, burst_until, service)), bool(in_flight))
            sender.waiting = int(queued) + int(waiting.get(sender.phone, 0))
            sender.sent_today = int(sent)
            sender.room_today = sender.pace.per_day - sender.sent_today - sender.waiting


def scaled(pace: Pace, time_scale: float) -> Pace:
    """Give the pace as it runs under TIME_SCALE: shorter pauses, and more messages in a minute."""
    if time_scale == 1:
        return pace
    return replace(
        pace,
        per_minute=max(1, int(pace.per_minute * time_scale)),
        pause_base_ms=int(pace.pause_base_ms / time_scale),
        pause_range_ms=int(pace.pause_range_ms / time_scale),
    )


def read_override(text: str) -> Override:
    """Read a session's own limits as they are stored; without any, everything comes from the preset."""
    if not text:
        return Override()
    raw: dict[str, Any] = json.loads(text)
    own: dict[str, Any] = {name: raw.get(name) for name in ("per_day", "per_minute", "pause_base_ms", "pause_range_ms")}
    own |= {name: time.fromisoformat(raw[name]) for name in ("opens", "closes") if raw.get(name)}
    return Override(**own)


def read_hold(text: str | None, now_ms: int) -> Hold | None:
    """Read a hold as it is stored; None when there is none or it has ended."""
    if text is None:
        return None
    raw = json.loads(text)
    until_ms = int(raw["until_ms"])
    if until_ms <= now_ms:
        return None
    because = Because.BANNED_HOLD if str(raw.get("why", "")).upper() in _BAN_WORDS else Because.HELD
    return Hold(because, None if until_ms >= _FOREVER_MS else until_ms)


def _pairs(flat: Sequence[str]) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True))
