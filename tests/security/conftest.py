"""The control plane of `tests/orchestrator` with all routes of workers: a real Redis, a runner in memory."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.orchestrator.conftest import api, check, context, control, impatient, quiet, runner, settings, teller
from wa_orchestrator.domain import worker_events
from wa_orchestrator.orchestrator.api.worker_outbox import WorkerOutboxRoutes
from wa_orchestrator.orchestrator.messages import incoming, receipts
from wa_orchestrator.orchestrator.messages.outbox_signal import OutboxSignals
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.web.app import make_app

__all__ = ["api", "check", "context", "control", "impatient", "quiet", "runner", "settings", "teller"]


@pytest.fixture
async def client(control: Orchestrator) -> AsyncIterator[httpx.AsyncClient]:
    """A client of all routes that a worker's token opens, without a key."""
    control.handlers.update(
        {
            worker_events.MessageSent: receipts.on_message_sent,
            worker_events.MessageFailed: receipts.on_message_failed,
            worker_events.MessageReceipt: receipts.on_message_status,
            worker_events.IncomingMessage: incoming.on_message_received,
            worker_events.AccountLimits: incoming.on_account_limits,
        }
    )
    signals = OutboxSignals(control.context.scripts)
    app = make_app(control.context, [*control.routers, WorkerOutboxRoutes(control.context, signals)])
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as made:
        yield made
    await signals.close()
