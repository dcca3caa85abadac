"""Reads snapshots of the fleet; only sessions that an event named are read again."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from wa_orchestrator.context import Context
from wa_orchestrator.dashboard.fleet.displaced_sessions import DisplacedSessions
from wa_orchestrator.dashboard.fleet.snapshot import Row, Snapshot
from wa_orchestrator.domain.pacing.hours import day_bounds_ms
from wa_orchestrator.session_pace import BAN_SIGNAL, hold_fields, override_of, pace_of, trust_of, zone_of
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.records import Session

#: Every session is read again after this time even without an event: pings make none.
FULL_S: Final = 10.0
_FOLLOWED: Final = ("sent", "delivered", "read", "failed")


class SnapshotReader:
    """Caches the rows of the last snapshot until an event or `FULL_S` makes them stale."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._rows: dict[str, Row] = {}
        self._stale: set[str] = set()
        self._read_all_at_s = float("-inf")
        self._lock = asyncio.Lock()
        self._displaced = DisplacedSessions(context.scripts)

    def mark_changed(self, session_ids: Iterable[str]) -> None:
        """Mark the rows of these sessions as stale."""
        self._stale.update(each for each in session_ids if each)

    def mark_all_changed(self) -> None:
        """Mark all rows as stale."""
        self._read_all_at_s = float("-inf")

    async def read(self) -> Snapshot:
        """Return the fleet as it is now."""
        now_ms = await self._context.scripts.now_ms()
        holds = await records.holds(self._context.scripts)
        async with self._lock:  # a concurrent reader waits: the rows are still the old ones
            await self._refresh(holds, now_ms)
        return await self._snapshot(holds, now_ms)

    async def _refresh(self, holds: Mapping[str, Any], now_ms: int) -> None:
        whole = time.monotonic() - self._read_all_at_s > FULL_S
        if not whole and not self._stale:
            return
        ids, self._stale = self._stale, set()  # before the read: a change during it is for the next one
        self._read_all_at_s = time.monotonic() if whole else self._read_all_at_s
        try:
            found = await records.sessions(self._context.scripts, None if whole else ids)
            rows = {row.id: row for row in await self._read(found, holds, now_ms)}
        except BaseException:
            self.mark_all_changed()
            raise
        kept = {} if whole else {name: row for name, row in self._rows.items() if name not in ids}
        self._rows = kept | rows

    async def _snapshot(self, holds: Mapping[str, Any], now_ms: int) -> Snapshot:
        redis = self._context.redis
        waiting: Any = await redis.smembers(keys.SESSIONS_WAITING)
        rows = dict(self._rows)
        proxies = await records.proxies(self._context.scripts)
        names = Counter(row.name for row in rows.values())
        return Snapshot(
            now_ms,
            rows,
            proxies,
            {name: hold for name, hold in holds.items() if hold["until_ms"] > now_ms},
            frozenset(waiting),
            self._context.settings.max_sessions_per_proxy,
            int(await redis.hlen(keys.OPT_OUTS)),
            Counter(row.state for row in rows.values()),
            frozenset(name for name, count in names.items() if count > 1),
            await self._displaced.of(proxies, now_ms),
            self._context.settings.allow_direct,
        )

    async def _read(self, sessions: Sequence[Session], holds: Mapping[str, Any], now_ms: int) -> list[Row]:
        settings = self._context.settings
        sessions = [session for session in sessions if not session.removing]
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
    """Return the hold on a session, a ban first, with the `field` that lifts it."""
    fields = [name for name in hold_fields(session) if name in holds and holds[name]["until_ms"] > now_ms]
    found = [{**holds[name], "field": name} for name in fields]
    return min(found, key=lambda hold: hold.get("why") != BAN_SIGNAL, default=None)


async def opt_outs(context: Context, most: int = 200) -> list[tuple[str, dict[str, Any]]]:
    """Return the opt-outs, the latest first."""
    raw: Any = await context.redis.hgetall(keys.OPT_OUTS)
    found = [(phone, json.loads(text)) for phone, text in raw.items()]
    return sorted(found, key=lambda pair: -int(pair[1].get("at_ms", 0)))[:most]
