"""What a release is checked against: the limits of a session at this moment, worked out from values."""

from zoneinfo import ZoneInfo

from wa_orchestrator.domain import pacing
from wa_orchestrator.domain.pacing import Pace
from wa_orchestrator.settings import Settings
from wa_orchestrator.store.queueing import Permit
from wa_orchestrator.store.reading import Session
from wa_orchestrator.web.pace import at_scale, hold_fields, pace_of, zone_of

#: A connected worker takes a released message within milliseconds; if it has not by then, another may be asked.
UNCLAIMED_MS = 30_000
#: However fast time runs, a worker that has just connected ends its poll for commands first.
_SOONEST_MS = 3_000
#: Nothing is released in the last minute of the hours: a worker types first, and WhatsApp must see it before they end.
CLOSING_MS = 60_000


def permit(settings: Settings, session: Session, *, now_ms: int, burst_until_ms: int, dice: float) -> Permit:
    """Work out the permit for the next message of a session. `dice` in [0, 1) draws the pause after it, once."""
    pace = pace_of(settings, session, now_ms)
    zone = zone_of(settings, session)
    day_start_ms, day_end_ms = pacing.day_bounds_ms(now_ms, zone)
    closing_ms = int(settings.scaled(CLOSING_MS))
    open_from_ms, open_until_ms = opening(pace, zone, now_ms=now_ms, closing_ms=closing_ms)
    factor = pacing.BURST_FACTOR if burst_until_ms > now_ms else 1
    return Permit(
        pause_ms=pacing.draw_pause(at_scale(settings, pace), dice, factor),
        per_minute=pace.per_minute,
        per_day=pace.per_day,
        day_start_ms=day_start_ms,
        day_end_ms=day_end_ms,
        open_from_ms=open_from_ms,
        open_until_ms=open_until_ms,
        lease_ms=max(_SOONEST_MS, int(settings.scaled(UNCLAIMED_MS))),
        minute_ms=int(settings.scaled(pacing.MINUTE_MS)),
        holds=hold_fields(session),
    )


def opening(pace: Pace, zone: ZoneInfo, *, now_ms: int, closing_ms: int) -> tuple[int, int]:
    """Give the window in which messages are released that contains `now_ms` or follows it."""
    if pace.opens == pace.closes:
        return pacing.hours_bounds_ms(pace, now_ms, zone)
    opens_ms, closes_ms = pacing.hours_bounds_ms(pace, now_ms, zone)
    if now_ms >= _last_call_ms(opens_ms, closes_ms, closing_ms):
        opens_ms, closes_ms = pacing.hours_bounds_ms(pace, closes_ms, zone)
    return opens_ms, _last_call_ms(opens_ms, closes_ms, closing_ms)


def _last_call_ms(opens_ms: int, closes_ms: int, closing_ms: int) -> int:
    """The end of releasing; hours of a few minutes lose a tenth of themselves at most."""
    return closes_ms - min(closing_ms, (closes_ms - opens_ms) // 10)
