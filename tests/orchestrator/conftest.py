"""A control plane over a real Redis, with a runner in memory."""

import logging
import shutil
from collections import namedtuple
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import structlog
from pydantic import SecretStr
from redis.asyncio import Redis

from tests.orchestrator.fakes import ADMIN, API_KEY, FakeCheck, FakeRunner, Teller
from wa_orchestrator.context import Context, make_context
from wa_orchestrator.domain.proxies.proxy_health import Patience
from wa_orchestrator.orchestrator import installation_check, leader_lease, service
from wa_orchestrator.orchestrator.proxies import health as proxy_health
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.settings import Settings
from wa_orchestrator.web import health
from wa_orchestrator.web.app import make_app

PROXIES = tuple(f"socks5h://user:canary-password-{n}@proxy{n}.example.com:1080" for n in range(1, 4))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Log nothing: rendering tracebacks takes longer than the tests."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.configure(**before)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Confirm failed checks at once, and wait for no traffic."""
    monkeypatch.setattr(proxy_health, "PATIENCE", Patience(confirm_ms=0, traffic_due_ms=0))


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a leader lead for the whole test: these renew its lease only now and then, and the machine may be busy."""
    monkeypatch.setattr(leader_lease, "LEASE_MS", 600_000)


Usage = namedtuple("Usage", "total used free")


@pytest.fixture(autouse=True)
def roomy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the disk is free, whatever machine the tests run on."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 5 * 10**11, 5 * 10**11))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Settings with three proxies and no waiting."""
    return Settings(
        api_key=SecretStr(API_KEY),
        webhook_secret=SecretStr("whsec_Tm90IGEgcmVhbCBzZWNyZXQsIGZvciB0ZXN0cw=="),
        dashboard_password=SecretStr("not-a-real-pass-phrase"),
        data_dir=tmp_path,
        proxy_urls=tuple(SecretStr(url) for url in PROXIES),
        provisioning_interval_ms=0,
        restart_interval_ms=0,
    )


@pytest.fixture
def context(settings: Settings, redis: Redis) -> Context:
    """A context over an empty Redis."""
    return make_context(settings, redis)


@pytest.fixture
def runner() -> FakeRunner:
    """A runner in memory."""
    return FakeRunner()


@pytest.fixture
def check() -> FakeCheck:
    """The check of proxies."""
    return FakeCheck()


@pytest.fixture
async def control(context: Context, runner: FakeRunner, check: FakeCheck) -> Orchestrator:
    """A control plane that leads, with the configured proxies in its pool."""
    made = service.assemble(context, runner, check)
    await installation_check.add_configured_proxies(context)
    await made.lease.step()
    return made


@pytest.fixture
async def present(control: Orchestrator) -> None:
    """The server has been there for half a minute: what workers complain about now began while it was."""
    control.proxy_health._present_since_ms -= 30_000
    control.lease.grace_from_ms -= 30_000


@pytest.fixture
async def client(control: Orchestrator) -> AsyncIterator[httpx.AsyncClient]:
    """A client of its API without a key."""
    app = make_app(control.context, [*control.routers, control.worker_events, health.router(control.context)])
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as made:
        yield made


@pytest.fixture
def api(client: httpx.AsyncClient) -> httpx.AsyncClient:
    """The same client as an administrator."""
    client.headers.update(ADMIN)
    return client


@pytest.fixture
def teller(context: Context, client: httpx.AsyncClient) -> Teller:
    """A worker's voice."""
    return Teller(context, client)
