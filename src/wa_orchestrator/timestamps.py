"""Timestamps of the API: UTC, ISO 8601, with milliseconds."""

from datetime import UTC, datetime

FOREVER_MS = 9_000_000_000_000_000
"""The end of a hold or a lock without an end."""


def iso(at_ms: int) -> str | None:
    """Return a timestamp; None for 0, which means never, and for FOREVER_MS."""
    if not at_ms or at_ms >= FOREVER_MS:
        return None
    moment = datetime.fromtimestamp(at_ms / 1000, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
