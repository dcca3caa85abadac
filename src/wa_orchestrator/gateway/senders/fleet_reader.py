"""Reads all sessions and the figures of their phones; after the first time only those that have changed.

Events name what changed, and a zset has the changes without events. In case one is missed all the same, every session
is read again within `_WHOLE_S`, a few at a time. Reads are cut into slices, so that requests are handled in between.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from time import monotonic
from typing import Any, Final

from wa_orchestrator.domain.ids import MessageId
from wa_orchestrator.domain.pacing.hours import day_bounds_ms, hours_bounds_ms
from wa_orchestrator.domain.pacing.limits import Pace
from wa_orchestrator.gateway.redis_access import Command, RedisAccess
from wa_orchestrator.messages.session_pace import Holds, pace_of, zone_of
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys
from wa_orchestrator.store.messages.holds import holds_from
from wa_orchestrator.store.record_codec import decode
from wa_orchestrator.store.records import PhonePace, Session
from wa_orchestrator.store.sessions import changes

#: Within this time every session is read again, whether or not it has changed.
_WHOLE_S: Final = 10.0
#: How many pages of events are read; after more of them everything is read again.
_MOST_PAGES: Final = 10
#: Sessions that are read in one round trip.
_SLICE: Final = 100
#: Marks of changes are read again from this long before the last look, because a clock may be set.
_OVERLAP_MS: Final = 2000
#: How long the limits of a session are reused: trust grows with its age, but slowly.
_LIMITS_MS: Final = 60_000
_PACE: Final = (
    "in_flight", "silent_until", "silence_ms", "lock_until", "cap_until", "burst_until", "service_ms", "strangers",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a session's phone."""

    pace: PhonePace
    queued: int
    sent_today: int
    strangers: int
    """People who never wrote, written to in a row."""


@dataclass(frozen=True, slots=True)
class KnownSession:
    """A session, what follows from its record until `valid_until_ms`, and the figures of its phone."""

    session: Session
    pace: Pace
    day_ms: tuple[int, int]
    reopens_ms: int
    valid_until_ms: int
    figures: Figures


@dataclass(frozen=True, slots=True)
class Fleet:
    """All sessions, by id, as they were at one moment."""

    sessions: Sequence[KnownSession]
    holds: Holds
    waiting: Mapping[str, str]
    """How many messages of a phone are accepted and not routed yet."""
    now_ms: int
    read_at_s: float
    poor_health: frozenset[str] = frozenset()
    """Phones whose number health is poor."""


class FleetReader:
    """Remembers what it has read, and up to which event. Not for concurrent use."""

    def __init__(self, redis: RedisAccess, settings: Settings) -> None:
        self._redis, self._settings = redis, settings
        self._known: dict[str, KnownSession] = {}
        self._waiting: Mapping[str, str] = {}
        self._cursor = ""
        self._now_ms = 0
        self._read_at_s = float("-inf")
        self._turn = 0
        """Where the round through all sessions goes on."""

    async def read(self) -> Fleet:
        """Read what has changed since the last call."""
        clock = await self._redis.run("now", [], [])
        now_ms, read_at_s = int(clock[1]), monotonic()
        # The cursor first: what changes from here on is named by a later event.
        newest, ids, raw_holds, waiting, poor, marked = await self._redis.many(
            [
                ("XREVRANGE", keys.EVENTS, "+", "-", "COUNT", 1),
                ("SMEMBERS", keys.SESSIONS_ALL),
                ("HGETALL", keys.HOLDS),
                ("HGETALL", keys.GATEWAY_WAITING),
                ("HKEYS", keys.POOR_HEALTH),
                changes.marks_since(self._now_ms - _OVERLAP_MS),
            ]
        )
        records, phones = await self._changed(str(newest[0][0]) if newest else "0-0", read_at_s)
        self._known = {name: self._known[name] for name in sorted(ids) if name in self._known}
        if records is None:
            records = set(ids)
        else:
            records |= {*marked, *self._next_in_turn(read_at_s)}
            records |= {name for name, each in self._known.items() if now_ms >= each.valid_until_ms}
            records = {name for name in records if name in self._known} | (set(ids) - self._known.keys())
            phones |= _differing(self._waiting, waiting)
        figures = {name for name, each in self._known.items() if each.session.phone in phones} | records
        try:
            await self._read_records(sorted(records), now_ms)
            await self._read_figures(sorted(figures & self._known.keys()))
        except BaseException:
            self._cursor = ""  # read everything next time
            raise
        self._waiting, self._now_ms, self._read_at_s = waiting, now_ms, read_at_s
        known = list(self._known.values())
        return Fleet(known, holds_from(raw_holds), waiting, now_ms, read_at_s, frozenset(poor))

    async def _changed(self, newest: str, at_s: float) -> tuple[set[str] | None, set[str]]:
        """Return sessions whose records, and phones whose figures may have changed; None for all sessions."""
        sessions: set[str] = set()
        phones: set[str] = set()
        cursor, is_old = self._cursor, at_s - self._read_at_s > _WHOLE_S
        self._cursor = newest
        if not cursor or is_old:
            return None, phones
        for _ in range(_MOST_PAGES):
            found = changes.read(await self._redis.run(changes.READ_CHANGES, *changes.call(cursor)))
            if isinstance(found, changes.StreamLost):
                return None, phones
            sessions |= set(found.sessions)
            phones |= set(found.phones)
            cursor = found.cursor
            if not found.more:
                self._cursor = cursor
                return sessions, phones
        return None, phones

    def _next_in_turn(self, at_s: float) -> Iterator[str]:
        """Return the sessions whose turn it is to be read again: all of them within `_WHOLE_S`."""
        names = list(self._known)
        count = min(len(names), math.ceil(len(names) * (at_s - self._read_at_s) / _WHOLE_S))
        first, self._turn = self._turn, (self._turn + count) % max(1, len(names))
        return (names[(first + at) % len(names)] for at in range(count))

    async def _read_records(self, names: Sequence[str], now_ms: int) -> None:
        for part in _slices(names):
            raws = await self._redis.many([("HGETALL", keys.session(name)) for name in part])
            for name, raw in zip(part, raws, strict=True):
                if raw:
                    self._known[name] = self._from_record(raw, now_ms)
                else:
                    self._known.pop(name, None)

    def _from_record(self, raw: Mapping[str, str], now_ms: int) -> KnownSession:
        session = decode(Session, raw)
        zone = zone_of(self._settings, session)
        pace, day = pace_of(self._settings, session, now_ms), day_bounds_ms(now_ms, zone)
        reopens_ms = hours_bounds_ms(pace, day[1], zone)[0]
        return KnownSession(session, pace, day, reopens_ms, min(day[1], now_ms + _LIMITS_MS), _NO_FIGURES)

    async def _read_figures(self, names: Sequence[str]) -> None:
        for part in _slices(names):
            commands: list[Command] = []
            for name in part:
                phone = self._known[name].session.phone
                commands += [
                    ("HMGET", keys.pace(phone), *_PACE),
                    ("ZCARD", keys.queue(phone)),
                    ("ZCOUNT", keys.sent(phone), self._known[name].day_ms[0], "+inf"),
                ]
            replies = await self._redis.many(commands)
            for at, name in enumerate(part):
                raw_pace, queued, sent_today = replies[3 * at : 3 * at + 3]
                *raw, strangers = raw_pace
                figures = Figures(_phone_pace(raw), int(queued), int(sent_today), int(strangers or 0))
                self._known[name] = replace(self._known[name], figures=figures)


def _slices(names: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(names)
    while part := list(islice(rest, _SLICE)):
        yield part


def _differing(one: Mapping[str, str], other: Mapping[str, str]) -> set[str]:
    """Return the phones for which another number of messages waits to be routed: routing makes no event."""
    return {phone for phone in one.keys() | other.keys() if one.get(phone) != other.get(phone)}


def _phone_pace(raw: Sequence[Any]) -> PhonePace:
    in_flight, figures = MessageId(raw[0] or ""), [int(float(each or 0)) for each in raw[1:]]
    silent_until, silence_ms, lock_until, cap_until, burst_until, service_ms = figures
    return PhonePace(in_flight, silent_until, silence_ms, lock_until, cap_until, burst_until, service_ms, sent=())


_NO_FIGURES: Final = Figures(_phone_pace([None] * (len(_PACE) - 1)), 0, 0, 0)
