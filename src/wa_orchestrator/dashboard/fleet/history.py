"""History: availability of sessions, messages per hour, queue depth, checks of proxies."""

from collections.abc import Sequence
from typing import Final

from wa_orchestrator.dashboard.fleet.availability import DAY_MS, QUARTER_MS, Change, Day, day_of
from wa_orchestrator.dashboard.fleet.snapshot import FailedMessages
from wa_orchestrator.dashboard.html.charts import QUARTERS
from wa_orchestrator.domain.sessions.session import State
from wa_orchestrator.domain.stream_events import EventType
from wa_orchestrator.store import records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import activity, event_counts
from wa_orchestrator.store.events.activity import HOUR_MS
from wa_orchestrator.store.messages import message_counts
from wa_orchestrator.store.records import Entry, Session

_MINUTE_MS: Final = 60_000
HOURS_SHOWN: Final = 24
_KEEP_HOURS: Final = 48
_KEEP_CHECKS: Final = 120
_BATCH: Final = 1000
_ROUND_S: Final = 2.0
#: Counted per hour.
_COUNTED: Final = frozenset({EventType.MESSAGE_SENT, EventType.MESSAGE_FAILED, EventType.MESSAGE_UNKNOWN})


async def days(scripts: Scripts, sessions: Sequence[Session], now_ms: int) -> dict[str, Day]:
    """Return the last 24 hours of these sessions, from their event streams."""
    histories = await activity.session_histories(scripts, [session.id for session in sessions])
    return {session.id: day_of(_changes(past), now_ms) for session, past in zip(sessions, histories, strict=True)}


def _changes(entries: Sequence[Entry]) -> list[Change]:
    found = []
    for entry in entries:
        fields, kind = entry.fields, entry.fields.get("type", "")
        state = kind.removeprefix("session.")
        if kind.startswith("session.") and state in tuple(State):
            at_ms = int(float(fields.get("at") or entry.cursor.partition("-")[0]))
            found.append(Change(at_ms, State(state), fields.get("reason", "")))
    return found


async def per_hour(scripts: Scripts, now_ms: int) -> tuple[list[int], list[int]]:
    """Return how many messages were sent and failed in each of the last 24 hours, the current hour last."""
    counts = await activity.hours(scripts)
    last = now_ms // HOUR_MS
    hours = range(last - HOURS_SHOWN + 1, last + 1)
    return [counts.get(f"{hour}:sent", 0) for hour in hours], [counts.get(f"{hour}:failed", 0) for hour in hours]


async def failed_lately(scripts: Scripts, now_ms: int) -> FailedMessages:
    """Return how many messages failed since the start of the previous hour, without those that were retried since."""
    since = now_ms // HOUR_MS - 1
    counts, now = await activity.hours(scripts), await message_counts.by_status(scripts)

    def still(status: str) -> int:
        lately = counts.get(f"{since}:{status}", 0) + counts.get(f"{since + 1}:{status}", 0)
        return min(lately, now.get(status, 0))

    return FailedMessages(still("failed"), still("unknown"), since * HOUR_MS)


async def depths(scripts: Scripts, now_ms: int) -> list[int]:
    """Return the deepest queue in each quarter hour of the last 24 hours; -1 where there is no sample."""
    begins = now_ms - DAY_MS
    found = [-1] * QUARTERS
    for at_ms, length in await activity.queue_lengths(scripts):
        place = (at_ms - begins) // QUARTER_MS
        if 0 <= place < QUARTERS:
            found[place] = max(found[place], length)
    return found


async def health(scripts: Scripts, proxy_ids: Sequence[str]) -> dict[str, list[int]]:
    """Return the latencies of the last checks of these proxies, oldest first; -1 for a failed check."""
    found = await activity.proxy_checks(scripts, proxy_ids)
    return {proxy_id: [latency for _, latency in checks] for proxy_id, checks in zip(proxy_ids, found, strict=True)}


async def record(scripts: Scripts) -> float:
    """Count one batch of messages before their events are trimmed; record queue depth and checks of proxies.

    Any number may run: the counts of a batch and its cursor are written together or not at all.
    """
    entries = await activity.count_per_hour(scripts, _COUNTED, most=_BATCH)
    if entries:
        await event_counts.add_durations(scripts, entries)
        last_hour = int(entries[-1].cursor.partition("-")[0]) // HOUR_MS
        await activity.remove_hours_before(scripts, last_hour - _KEEP_HOURS)
    checks: dict[str, tuple[int, int]] = {
        proxy.id: (proxy.checked_at, -1 if proxy.last_error else proxy.latency_ms or 0)
        for proxy in await records.proxies(scripts)
        if proxy.checked_at
    }
    await activity.add_proxy_checks(scripts, checks, most=_KEEP_CHECKS)
    await activity.add_queue_length(scripts, interval_ms=_MINUTE_MS, most=DAY_MS // _MINUTE_MS)
    return 0 if len(entries) >= _BATCH else _ROUND_S
