"""Instants as they are shown: UTC, ISO 8601, with milliseconds."""

from datetime import UTC, datetime


def iso(at_ms: int) -> str | None:
    """Write an instant; None for 0, which stands for never."""
    if not at_ms:
        return None
    moment = datetime.fromtimestamp(at_ms / 1000, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
