"""Instants as people type them: `+10m`, `2026-01-31 09:00` in this machine's time, or with an offset."""

import re
from datetime import UTC, datetime, timedelta

from wa_orchestrator.errors import Refused

_AHEAD = re.compile(r"([+-])(\d{1,6})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def parse(text: str, option: str, now: datetime | None = None) -> str:
    """Give the instant in the form that the API takes."""
    if ahead := _AHEAD.fullmatch(text):
        sign, count, unit = ahead.groups()
        span = timedelta(**{_UNITS[unit]: int(f"{sign}{count}")})
        return ((now or datetime.now(UTC)) + span).isoformat(timespec="milliseconds")
    try:
        return datetime.fromisoformat(text).astimezone().isoformat()
    except (ValueError, OverflowError, OSError):
        raise Refused(
            "BAD_INSTANT", f'{option}: is no time. Example: {option} +10m, or {option} "2030-01-31 09:00"'
        ) from None
