"""The warnings and errors in the server's log during a test."""

import contextlib
import logging
from collections.abc import Iterator

import pytest
import structlog


@contextlib.contextmanager
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[list[object]]:
    """Collect the warnings and errors that are logged, by us or by a library."""
    lines: list[object] = []
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.BoundLogger)
    try:
        with caplog.at_level(logging.WARNING), structlog.testing.capture_logs() as ours:
            yield lines
    finally:
        structlog.configure(**before)
    lines += [each for each in ours if each["log_level"] in ("warning", "error", "critical")]
    lines += [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
