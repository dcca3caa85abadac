"""Parses times on the command line: `+10m`, `2026-01-31 09:00` in this machine's time, or with an offset."""

import re
from datetime import UTC, datetime, timedelta

from wa_orchestrator.errors import Refused

_RELATIVE = re.compile(r"([+-])(\d{1,6})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def parse(text: str, option: str, now: datetime | None = None) -> str:
    """Return the time as ISO 8601, for the API."""
    if relative := _RELATIVE.fullmatch(text):
        sign, count, unit = relative.groups()
        span = timedelta(**{_UNITS[unit]: int(f"{sign}{count}")})
        return ((now or datetime.now(UTC)) + span).isoformat(timespec="milliseconds")
    try:
        return datetime.fromisoformat(text).astimezone().isoformat()
    except (ValueError, OverflowError, OSError):
        raise Refused(
            "BAD_INSTANT", f'{option}: is not a time. Example: {option} +10m, or {option} "2030-01-31 09:00"'
        ) from None
