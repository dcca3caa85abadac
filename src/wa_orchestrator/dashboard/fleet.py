"""The fleet at one moment, as the pages show it. Sessions that nothing happened to are not read again."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from wa_orchestrator.domain.hours import day_bounds_ms
from wa_orchestrator.domain.pace import Pace, Trust
from wa_orchestrator.domain.session import Reason, State, needs_person
from wa_orchestrator.store import keys, reading
from wa_orchestrator.store.reading import Proxy, Session
from wa_orchestrator.web.context import Context
from wa_orchestrator.web.pace import BAN_SIGNAL, hold_fields, override_of, pace_of, trust_of, zone_of

#: A look at everything is repeated after this time even when no event asked for it: pings make no events.
FULL_S: Final = 10.0
_FOLLOWED: Final = ("sent", "delivered", "read", "failed")
#: What a person should see first.
ORDER: Final = {
    State.FAILED: 0,
    State.DISCONNECTED: 1,
    State.QR_READY: 2,
    State.PENDING: 3,
    State.CONNECTED: 4,
    State.STOPPED: 5,
}


@dataclass(frozen=True, slots=True)
class Row:
    """One session as a row of the table."""

    session: Session
    trust: Trust
    pace: Pace
    sent_today: int
    sent_minute: int
    queued: int
    hold: Mapping[str, Any] | None
    burst_until: int
    stats: Mapping[str, int]
    own_limits: bool

    @property
    def id(self) -> str:
        """The session's id."""
        return self.session.id

    @property
    def name(self) -> str:
        """What people call it."""
        return self.session.label or self.session.id

    @property
    def state(self) -> State:
        """Where it is."""
        return State(self.session.status)

    @property
    def needs_person(self) -> bool:
        """Whether somebody has to do something."""
        reason = self.session.reason
        return needs_person(self.state, Reason(reason) if reason in Reason.__members__ else None)

    @property
    def is_banned(self) -> bool:
        """Whether WhatsApp itself has stopped it."""
        return self.session.reason in (Reason.BANNED, Reason.TEMPORARY_BAN)

    @property
    def left_today(self) -> int:
        """How many messages its phone may still say today."""
        return max(0, self.pace.per_day - self.sent_today)

    @property
    def budget(self) -> str:
        """How its budget stands: held, full, warn or ok."""
        if self.hold is not None:
            return "held"
        if self.sent_today >= self.pace.per_day:
            return "full"
        return "warn" if self.sent_today >= 0.8 * self.pace.per_day else "ok"

    @property
    def share_sent(self) -> int:
        """How much of today's budget is used, in percent."""
        return min(100, round(self.sent_today / self.pace.per_day * 100))

    @property
    def share_queued(self) -> int:
        """How much of today's budget the queue will use, in percent."""
        return min(100 - self.share_sent, round(self.queued / self.pace.per_day * 100))

    def matches(self, text: str) -> bool:
        """Whether a search finds it: by name, id, phone or proxy."""
        wanted = text.strip().lower()
        digits = "".join(each for each in wanted if each.isdigit())
        hay = f"{self.name} {self.id} {self.session.phone} {self.session.proxy}".lower()
        return wanted in hay or (len(digits) > 3 and digits in self.session.phone)


@dataclass(frozen=True, slots=True)
class Seat:
    """One place on a proxy; empty when nobody sits there."""

    row: Row | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that the pages show of sessions and proxies, at one moment."""

    now_ms: int
    rows: Mapping[str, Row]
    proxies: Sequence[Proxy]
    holds: Mapping[str, Mapping[str, Any]]
    waiting_for_seat: frozenset[str]
    seats_per_proxy: int
    opted_out: int
    counts: Counter[State] = field(default_factory=Counter)

    def sorted_rows(self) -> list[Row]:
        """All sessions, those that need somebody first."""
        return sorted(self.rows.values(), key=lambda row: (ORDER[row.state], natural(row.name), row.id))

    def today(self, status: str) -> int:
        """How many messages got this status today."""
        return sum(row.stats.get(status, 0) for row in self.rows.values())

    @property
    def queued(self) -> int:
        """How many messages wait; a phone's queue is counted once."""
        return sum({row.session.phone or row.id: row.queued for row in self.rows.values()}.values())

    @property
    def healthy(self) -> list[Proxy]:
        """The proxies that sessions may be put on."""
        return [proxy for proxy in self.proxies if proxy.status == "OK"]

    @property
    def seats(self) -> int:
        """Places on healthy proxies."""
        return self.seats_per_proxy * len(self.healthy)

    @property
    def free_seats(self) -> int:
        """Places on healthy proxies that nobody has."""
        return sum(max(0, self.seats_per_proxy - len(proxy.sessions)) for proxy in self.healthy)

    @property
    def is_held(self) -> bool:
        """Whether all sending is paused."""
        return "all" in self.holds

    def seated(self, proxy: Proxy) -> list[Seat]:
        """The places of a proxy, taken ones first; always as many as there are."""
        rows = sorted((self.rows[name] for name in proxy.sessions if name in self.rows), key=lambda row: row.id)
        return [Seat(row) for row in rows] + [Seat(None)] * (self.seats_per_proxy - len(rows))


@lru_cache(maxsize=8192)
def natural(name: str) -> tuple[Any, ...]:
    """A sorting key in which worker_10 follows worker_9. Kept: a page sorts the same names several times."""
    parts: list[Any] = []
    digits = ""
    for each in f"{name.lower()} ":
        if each.isascii() and each.isdigit():
            digits += each
            continue
        if digits:
            parts.append((0, int(digits), ""))
            digits = ""
        parts.append((1, 0, each))
    return tuple(parts)


class Fleet:
    """Keeps the latest snapshot. Events say which sessions to read again; everything is read again now and then."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._rows: dict[str, Row] = {}
        self._dirty: set[str] = set()
        self._whole_at_s = float("-inf")
        self._reading = asyncio.Lock()

    def touch(self, session_ids: Iterable[str]) -> None:
        """Say that something happened to these sessions."""
        self._dirty.update(each for each in session_ids if each)

    def touch_all(self) -> None:
        """Say that something happened that may concern every session."""
        self._whole_at_s = float("-inf")

    async def look(self) -> Snapshot:
        """Give the fleet as it is now."""
        now_ms = await self._context.scripts.now_ms()
        holds = await reading.holds(self._context.scripts)
        async with self._reading:  # who comes while another reads waits for it: the rows still are the old ones
            await self._read_again(holds, now_ms)
        return await self._snapshot(holds, now_ms)

    async def _read_again(self, holds: Mapping[str, Any], now_ms: int) -> None:
        whole = time.monotonic() - self._whole_at_s > FULL_S
        if not whole and not self._dirty:
            return
        ids, self._dirty = self._dirty, set()  # before the reading: what happens during it is for the next one
        self._whole_at_s = time.monotonic() if whole else self._whole_at_s
        try:
            found = await reading.sessions(self._context.scripts, None if whole else ids)
            rows = {row.id: row for row in await self._read(found, holds, now_ms)}
        except BaseException:
            self.touch_all()
            raise
        kept = {} if whole else {name: row for name, row in self._rows.items() if name not in ids}
        self._rows = kept | rows

    async def _snapshot(self, holds: Mapping[str, Any], now_ms: int) -> Snapshot:
        redis = self._context.redis
        waiting: Any = await redis.smembers(keys.SESSIONS_WAITING)
        rows = dict(self._rows)
        return Snapshot(
            now_ms,
            rows,
            await reading.proxies(self._context.scripts),
            {name: hold for name, hold in holds.items() if hold["until_ms"] > now_ms},
            frozenset(waiting),
            self._context.settings.max_sessions_per_proxy,
            int(await redis.hlen(keys.OPT_OUTS)),
            Counter(row.state for row in rows.values()),
        )

    async def _read(self, sessions: Sequence[Session], holds: Mapping[str, Any], now_ms: int) -> list[Row]:
        settings = self._context.settings
        sessions = [session for session in sessions if not session.fields.get("removing")]
        pipe = self._context.redis.pipeline(transaction=False)
        for session in sessions:
            zone = zone_of(settings, session)
            day_starts_ms, _ = day_bounds_ms(now_ms, zone)
            day = datetime.fromtimestamp(now_ms / 1000, tz=zone).strftime("%Y%m%d")
            pipe.zcount(keys.sent(session.phone), day_starts_ms, "+inf")
            pipe.zcount(keys.sent(session.phone), now_ms - settings.scaled(60_000), "+inf")
            pipe.zcard(keys.queue(session.phone))
            pipe.hget(keys.GATEWAY_WAITING, session.phone)
            pipe.hget(keys.pace(session.phone), "burst_until")
            pipe.hmget(keys.stats(session.id, day), *_FOLLOWED)
        replies: list[Any] = await pipe.execute() if sessions else []
        rows = []
        for at, session in enumerate(sessions):
            sent, minute, queued, routed, burst, stats = replies[6 * at : 6 * at + 6]
            rows.append(
                Row(
                    session,
                    trust_of(session, now_ms),
                    pace_of(settings, session, now_ms),
                    int(sent) if session.phone else 0,
                    int(minute) if session.phone else 0,
                    int(queued) + int(routed or 0) if session.phone else 0,
                    _hold_on(holds, session, now_ms),
                    int(float(burst or 0)),
                    {name: int(count or 0) for name, count in zip(_FOLLOWED, stats, strict=True)},
                    own_limits=override_of(session) != type(override_of(session))(),
                )
            )
        return rows


def _hold_on(holds: Mapping[str, Any], session: Session, now_ms: int) -> Mapping[str, Any] | None:
    """The hold that concerns a session, the gravest first, with the `field` by which it is lifted."""
    fields = [name for name in hold_fields(session) if name in holds and holds[name]["until_ms"] > now_ms]
    found = [{**holds[name], "field": name} for name in fields]
    return min(found, key=lambda hold: hold.get("why") != BAN_SIGNAL, default=None)


async def opt_outs(context: Context, most: int = 200) -> list[tuple[str, dict[str, Any]]]:
    """Give those who do not want to be written to, the latest first."""
    raw: Any = await context.redis.hgetall(keys.OPT_OUTS)
    found = [(phone, json.loads(text)) for phone, text in raw.items()]
    return sorted(found, key=lambda pair: -int(pair[1].get("at_ms", 0)))[:most]
