"""A control plane over a real Redis, with a runner in memory, and its backups."""

import pytest

from tests.orchestrator.conftest import api, check, client, context, control, impatient, quiet, runner, settings
from wa_orchestrator.context import Context
from wa_orchestrator.orchestrator import leader_lease
from wa_orchestrator.orchestrator.backups.sent_journal import SentJournal
from wa_orchestrator.orchestrator.backups.service import BackupService
from wa_orchestrator.orchestrator.service import Orchestrator

__all__ = ["api", "check", "client", "context", "control", "impatient", "quiet", "runner", "settings"]


@pytest.fixture(autouse=True)
def long_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    """No loop renews the leadership here, and a slow machine takes longer than it lasts."""
    monkeypatch.setattr(leader_lease, "LEASE_MS", 600_000)


@pytest.fixture
def service(context: Context, control: Orchestrator) -> BackupService:
    """The loop of backups; tests step it."""
    return BackupService(context, control.pool, SentJournal(context))
