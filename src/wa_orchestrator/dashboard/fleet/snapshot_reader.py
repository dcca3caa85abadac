"""Reads snapshots of the fleet; only sessions that an event named are read again."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from wa_orchestrator.context import Context
from wa_orchestrator.dashboard.fleet import history
from wa_orchestrator.dashboard.fleet.displaced_sessions import DisplacedSessions
from wa_orchestrator.dashboard.fleet.snapshot import Row, Snapshot
from wa_orchestrator.domain.pacing.backlog import split_backlog
from wa_orchestrator.domain.pacing.hours import day_bounds_ms
from wa_orchestrator.messages import session_pace
from wa_orchestrator.messages.session_pace import Holds, pace_of, zone_of
from wa_orchestrator.store import records
from wa_orchestrator.store.campaigns import campaign_records
from wa_orchestrator.store.events import activity, lasting_troubles, webhooks
from wa_orchestrator.store.events.webhooks import Webhook
from wa_orchestrator.store.messages.holds import Hold
from wa_orchestrator.store.records import Session
from wa_orchestrator.store.sessions import slots

#: Every session is read again after this time even without an event: pings make none.
FULL_S: Final = 10.0
#: The log and the audit log go back only so far.
_CAMPAIGNS: Final = 100


class SnapshotReader:
    """Caches the rows of the last snapshot until an event or `FULL_S` makes them stale."""

    def __init__(self, context: Context) -> None:
        self._scripts, self._settings = context.scripts, context.settings
        self._rows: dict[str, Row] = {}
        self._stale: set[str] = set()
        self._read_all_at_s = float("-inf")
        self._lock = asyncio.Lock()
        self._displaced = DisplacedSessions(context.scripts)

    def mark_changed(self, session_ids: Iterable[str]) -> None:
        self._stale.update(each for each in session_ids if each)

    def mark_all_changed(self) -> None:
        self._read_all_at_s = float("-inf")

    async def read(self) -> Snapshot:
        now_ms = await self._scripts.now_ms()
        every = await records.holds(self._scripts)
        holds = {name: hold for name, hold in every.items() if hold.until_ms > now_ms}
        async with self._lock:  # a concurrent reader waits: the rows are still the old ones
            await self._refresh(holds, now_ms)
        return await self._snapshot(holds, now_ms)

    async def _refresh(self, holds: Holds, now_ms: int) -> None:
        whole = time.monotonic() - self._read_all_at_s > FULL_S
        if not whole and not self._stale:
            return
        ids, self._stale = self._stale, set()  # before the read: a change during it is for the next one
        self._read_all_at_s = time.monotonic() if whole else self._read_all_at_s
        try:
            found = await records.sessions(self._scripts, None if whole else ids)
            rows = {row.id: row for row in await self._read(found, holds, now_ms)}
        except BaseException:
            self.mark_all_changed()
            raise
        kept = {} if whole else {name: row for name, row in self._rows.items() if name not in ids}
        self._rows = kept | rows

    async def _snapshot(self, holds: Holds, now_ms: int) -> Snapshot:
        rows = dict(self._rows)
        proxies = await records.proxies(self._scripts)
        names = Counter(row.name for row in rows.values())
        hooks = list((await webhooks.every(self._scripts)).values())
        return Snapshot(
            now_ms,
            rows,
            proxies,
            holds,
            frozenset(await slots.waiting(self._scripts)),
            self._settings.max_sessions_per_proxy,
            Counter(row.state for row in rows.values()),
            frozenset(name for name, count in names.items() if count > 1),
            await self._displaced.of(proxies, now_ms),
            self._settings.allow_direct,
            {webhook.id: webhook.host for webhook in hooks},
            await self._failing_webhooks(hooks),
            await history.failed_lately(self._scripts, now_ms),
            await lasting_troubles.every(self._scripts),
            await campaign_records.names(self._scripts, most=_CAMPAIGNS),
        )

    async def _failing_webhooks(self, hooks: Sequence[Webhook]) -> dict[str, int]:
        found: dict[str, int] = {}
        for webhook in hooks:
            state = await webhooks.state(self._scripts, webhook.id)
            if state.disabled_at_ms:
                continue  # a trouble of its own: nothing is delivered to it
            if since := state.failing_since_ms:
                found[webhook.host] = min(since, found.get(webhook.host, since))
        return found

    async def _read(self, sessions: Sequence[Session], holds: Holds, now_ms: int) -> list[Row]:
        settings = self._settings
        sessions = [session for session in sessions if not session.removing]
        spans = [self._span(session, now_ms) for session in sessions]
        return [
            Row(
                session,
                session_pace.trust_of(session, now_ms),
                pace_of(settings, session, now_ms),
                done.waiting.sent_today,
                done.sent_in_minute,
                split_backlog(pace_of(settings, session, now_ms), zone_of(settings, session), done.waiting, now_ms),
                _hold_on(holds, session),
                done.burst_until,
                done.lock_until,
                done.cap_until,
                done.slowdowns,
                done.counts,
                session_pace.origins_of(settings, session, now_ms),
            )
            for session, done in zip(sessions, await activity.of_sessions(self._scripts, spans), strict=True)
        ]

    def _span(self, session: Session, now_ms: int) -> activity.Span:
        zone = zone_of(self._settings, session)
        day = datetime.fromtimestamp(now_ms / 1000, tz=zone).strftime("%Y%m%d")
        minute_start_ms = now_ms - int(self._settings.scaled(60_000))
        return activity.Span(session.id, session.phone, day_bounds_ms(now_ms, zone), minute_start_ms, day)


def _hold_on(holds: Holds, session: Session) -> Hold | None:
    """Return the hold on a session, a ban first, with the `field` that lifts it."""
    found = [holds[name] for name in session_pace.hold_fields(session) if name in holds]
    return min(found, key=lambda hold: hold.why != session_pace.BAN_SIGNAL, default=None)
