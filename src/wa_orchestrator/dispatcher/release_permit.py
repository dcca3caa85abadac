"""Computes the limits of a session at this moment; the release script checks them."""

from wa_orchestrator.domain.pacing.hours import day_bounds_ms, release_bounds_ms
from wa_orchestrator.domain.pacing.limits import MINUTE_MS, burst_factor, draw_pause
from wa_orchestrator.messages.session_pace import at_scale, hold_fields, pace_of, zone_of
from wa_orchestrator.settings import Settings
from wa_orchestrator.store.messages.queues import Permit
from wa_orchestrator.store.records import Session

#: A connected worker claims a released message within milliseconds; if it has not by then, another session may send it.
UNCLAIMED_MS = 30_000
#: However fast time runs (TIME_SCALE), a worker that has just connected finishes its poll for commands first.
_SHORTEST_MS = 3_000


def unclaimed_ms(settings: Settings) -> int:
    """Return how long a released message waits for a worker to claim it."""
    return max(_SHORTEST_MS, int(settings.scaled(UNCLAIMED_MS)))


def permit(settings: Settings, session: Session, *, now_ms: int, burst_until_ms: int, jitter: float) -> Permit:
    """Return the permit for the next message of a session. `jitter` in [0, 1) draws the pause after it, once."""
    pace = pace_of(settings, session, now_ms)
    scaled = at_scale(settings, pace)
    zone = zone_of(settings, session)
    day_start_ms, day_end_ms = day_bounds_ms(now_ms, zone)
    open_from_ms, open_until_ms = release_bounds_ms(scaled, now_ms, zone)
    return Permit(
        pause_ms=draw_pause(scaled, jitter, burst_factor(now_ms, burst_until_ms)),
        per_minute=pace.per_minute,
        per_day=pace.per_day,
        day_start_ms=day_start_ms,
        day_end_ms=day_end_ms,
        open_from_ms=open_from_ms,
        open_until_ms=open_until_ms,
        lease_ms=unclaimed_ms(settings),
        minute_ms=int(settings.scaled(MINUTE_MS)),
        holds=hold_fields(session),
    )
