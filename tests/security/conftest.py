"""The control plane of `tests/orchestrator` with all routes of workers: a real Redis, a runner in memory."""

import contextlib
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.orchestrator.conftest import api, check, context, control, impatient, quiet, runner, settings, teller
from tests.orchestrator.fakes import FakeRunner
from tests.security.peers import Serve
from wa_orchestrator.context import Context
from wa_orchestrator.domain.workers import worker_events
from wa_orchestrator.gateway.app import Gateway
from wa_orchestrator.orchestrator import service
from wa_orchestrator.orchestrator.api.workers.events import OneStep
from wa_orchestrator.orchestrator.api.workers.outbox import WorkerOutboxRoutes
from wa_orchestrator.orchestrator.messages import incoming_messages, receipts
from wa_orchestrator.orchestrator.messages.outbox_signal import OutboxSignals
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.server import bootstrap
from wa_orchestrator.server.bootstrap import ControlApps
from wa_orchestrator.server.http import listen, serving
from wa_orchestrator.web.app import make_app
from wa_orchestrator.web.connections import Limits

__all__ = ["api", "check", "context", "control", "impatient", "quiet", "runner", "settings", "teller"]


@pytest.fixture
async def client(control: Orchestrator) -> AsyncIterator[httpx.AsyncClient]:
    """A client of all routes that a worker's token opens, without a key."""
    control.handlers.update(
        {
            worker_events.MessageSent: OneStep(receipts.on_message_sent),
            worker_events.MessageFailed: receipts.on_message_failed,
            worker_events.MessageReceipt: OneStep(receipts.on_message_status),
            worker_events.IncomingMessage: OneStep(incoming_messages.on_message_received),
            worker_events.AccountLimits: incoming_messages.on_account_limits,
        }
    )
    signals = OutboxSignals(control.context.scripts)
    app = make_app(
        control.context, [*control.routers, control.worker_events, WorkerOutboxRoutes(control.context, signals)]
    )
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as made:
        yield made
    await signals.close()


@pytest.fixture
def gateway(context: Context) -> Gateway:
    return Gateway(context)


@pytest.fixture
async def apps(context: Context, gateway: Gateway) -> ControlApps:
    """The applications as `up` serves them."""
    return bootstrap.control_apps(service.assemble(context, FakeRunner()), [gateway.router()])


@pytest.fixture
async def stranger(apps: ControlApps) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the main port without credentials."""
    transport = httpx.ASGITransport(apps.main, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
        yield client


@pytest.fixture(params=["hot", "ordinary"])
def serve(request: pytest.FixtureRequest, apps: ControlApps, gateway: Gateway) -> Serve:
    """Serves the main application with limits, by both protocols; gives the port."""

    @contextlib.asynccontextmanager
    async def served(**limits: float) -> AsyncIterator[int]:
        bound = listen("127.0.0.1", 0, "ORCH_PORT")
        port: int = bound.getsockname()[1]
        protocol = {"http": gateway.http} if request.param == "hot" else {}
        async with serving(apps.main, bound, Limits(**limits), **protocol):  # type: ignore[arg-type]
            yield port

    return served
