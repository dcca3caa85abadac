"""Days and opening hours of a time zone as instants, through changes to and from daylight saving time.

A local time that the clock skips means the moment of the skip. Of a local time that happens twice, opening takes the
second and closing the first, so that no instant of the window has a wall clock outside the hours.
"""

from bisect import bisect_left
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from wa_orchestrator.domain.pacing.limits import Pace

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ONE_DAY = timedelta(days=1)
_MS = timedelta(milliseconds=1)
_MIDNIGHT = time(0)


def day_bounds_ms(now_ms: int, zone: ZoneInfo) -> tuple[int, int]:
    """Return the local calendar day that contains `now_ms`, as [from, until): 23, 24 or 25 hours."""
    day = _local_date(now_ms, zone)
    # Where the clock goes back over midnight, a day that has begun counts although the date is yesterday's again.
    while now_ms >= _day_start_ms(day + _ONE_DAY, zone):
        day += _ONE_DAY
    return _day_start_ms(day, zone), _day_start_ms(day + _ONE_DAY, zone)


def hours_bounds_ms(pace: Pace, now_ms: int, zone: ZoneInfo) -> tuple[int, int]:
    """Return the open window [from, until) that contains `now_ms` or, when closed, follows it."""
    if pace.opens == pace.closes:
        return day_bounds_ms(now_ms, zone)
    day = _local_date(now_ms, zone) - _ONE_DAY
    # An empty window is one that the clock has skipped.
    while (window := _window(day, pace.opens, pace.closes, zone))[1] <= max(now_ms, window[0]):
        day += _ONE_DAY
    return window


def release_bounds_ms(pace: Pace, now_ms: int, zone: ZoneInfo) -> tuple[int, int]:
    """Return the window [from, until) in which messages are released that contains `now_ms` or follows it.

    It is the open window without its last moments (`closing_ms`); hours of a few minutes lose a tenth.
    """
    opens_ms, closes_ms = hours_bounds_ms(pace, now_ms, zone)
    if pace.opens == pace.closes:
        return opens_ms, closes_ms
    if now_ms >= _last_release_ms(opens_ms, closes_ms, pace.closing_ms):
        opens_ms, closes_ms = hours_bounds_ms(pace, closes_ms, zone)
    return opens_ms, _last_release_ms(opens_ms, closes_ms, pace.closing_ms)


def _last_release_ms(opens_ms: int, closes_ms: int, closing_ms: int) -> int:
    return closes_ms - min(closing_ms, (closes_ms - opens_ms) // 10)


@lru_cache(maxsize=4096)
def _window(day: date, opens: time, closes: time, zone: ZoneInfo) -> tuple[int, int]:
    last_day = day if opens < closes else day + _ONE_DAY
    start = _instant_ms(datetime.combine(day, opens), zone, fold=1)
    end = _instant_ms(datetime.combine(last_day, closes), zone, fold=0)
    if end <= start:
        # Both lie in the hour that happens twice: the second time round is the window.
        end = _instant_ms(datetime.combine(last_day, closes), zone, fold=1)
    return start, end


@lru_cache(maxsize=4096)
def _day_start_ms(day: date, zone: ZoneInfo) -> int:
    return _instant_ms(datetime.combine(day, _MIDNIGHT), zone, fold=0)


def _local_date(now_ms: int, zone: ZoneInfo) -> date:
    return (_EPOCH + timedelta(milliseconds=now_ms)).astimezone(zone).date()


def _instant_ms(local: datetime, zone: ZoneInfo, *, fold: int) -> int:
    there = local.replace(tzinfo=zone, fold=fold)
    utc = there.astimezone(UTC)
    if utc.astimezone(zone).replace(tzinfo=None) == local:
        return (utc - _EPOCH) // _MS
    return _end_of_gap_ms(local, zone)


def _end_of_gap_ms(skipped: datetime, zone: ZoneInfo) -> int:
    """Return the instant at which the clock jumped over the local time `skipped`."""
    before, after = (int(skipped.replace(tzinfo=zone, fold=fold).timestamp()) for fold in (1, 0))
    seconds = range(before, after + 1)
    at = bisect_left(seconds, skipped, key=lambda second: datetime.fromtimestamp(second, zone).replace(tzinfo=None))
    return seconds[at] * 1000
