"""The control plane of `tests/orchestrator`: a real Redis, the real routes, a runner in memory."""

from tests.orchestrator.conftest import (
    api,
    check,
    client,
    context,
    control,
    impatient,
    quiet,
    runner,
    settings,
    teller,
)

__all__ = ["api", "check", "client", "context", "control", "impatient", "quiet", "runner", "settings", "teller"]
