"""Instants as they are shown: UTC, ISO 8601, with milliseconds."""

from datetime import UTC, datetime

FOREVER_MS = 9_000_000_000_000_000
"""The end of a hold or a lock that has none."""


def iso(at_ms: int) -> str | None:
    """Write an instant; None for 0, which stands for never, and for an end that there is not."""
    if not at_ms or at_ms >= FOREVER_MS:
        return None
    moment = datetime.fromtimestamp(at_ms / 1000, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
