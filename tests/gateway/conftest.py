"""The gateway in one process with a real Redis: with its hot path on a socket, without it over ASGI."""

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from redis.asyncio import Redis
from uvicorn.server import ServerState

from tests.conftest import HELD_CLOCK, Clock
from tests.redis_server import DURABLE, RedisServer, redis_server
from wa_orchestrator.context import Context
from wa_orchestrator.gateway.app import Gateway
from wa_orchestrator.gateway.content_loader import ContentLoader
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys, sessions
from wa_orchestrator.store.engine.scripts import Scripts

API_KEY = "wao_a-key-for-the-tests-0123456789"
PHONE = "972500000001"
#: A Sunday at noon in UTC: inside everybody's hours.
NOON_MS = 1_750_000_000_000 // 86_400_000 * 86_400_000 + 12 * 3_600_000


class Gate:
    """A gateway, a client with its key, and the Redis behind it."""

    def __init__(self, gateway: Gateway, client: httpx.AsyncClient, redis: Redis) -> None:
        self.gateway = gateway
        self.client = client
        self.redis = redis
        self.scripts = gateway.context.scripts

    async def send(self, *, headers: Any = None, **body: Any) -> httpx.Response:
        """Post one message; `to` and `message` have defaults."""
        whole = {"to": "972511111111", "message": "hello", **body}
        return await self.client.post("/api/v1/send", json=whole, headers=headers or {})

    async def add_session(self, name: str = "w1", phone: str = PHONE, **fields: str | int) -> None:
        """Make a session; connected and hot unless `fields` say otherwise."""
        await sessions.create(
            self.scripts,
            sessions.NewSession(
                name, phone, await self.scripts.redis.scard(keys.sessions_of_phone(phone)), direct="direct"
            ),
            per_proxy=4,
            per_phone=4,
        )
        now = await self.scripts.now_ms()
        known: dict[Any, Any] = {
            "status": "connected",
            "first_connected_at": now - 30 * 86_400_000,
            "timezone": "UTC",
            **fields,
        }
        await self.redis.hset(keys.session(name), mapping=known)

    async def queued(self) -> list[str]:
        """The ids of what was accepted and not routed."""
        return [str(each) for each in await self.redis.lrange(keys.GATEWAY_JOBS, 0, -1)]


def make_settings(directory: Path, **changes: Any) -> Settings:
    """Settings of a small installation."""
    return Settings(
        **{"api_key": API_KEY, "data_dir": directory, "timezone": "UTC", "rate_limit_per_minute": 100_000, **changes}
    )


@contextlib.asynccontextmanager
async def serve(gateway: Gateway) -> AsyncIterator[httpx.AsyncBaseTransport]:
    """Serve a gateway as its setting says: over a socket with its own protocol, or by the ordinary application."""
    if not gateway.context.settings.gateway_hot_path:
        yield httpx.ASGITransport(app=gateway.app())
        return
    # A whole uvicorn.Server would take a tenth of a second more for every test.
    config = uvicorn.Config(gateway.app(), http=gateway.http, log_config=None, access_log=False, lifespan="off")
    config.load()
    state = ServerState()
    protocol: Any = config.http_protocol_class
    connect = partial(protocol, config=config, server_state=state, app_state={})
    with tempfile.TemporaryDirectory(prefix="gw-") as directory:
        path = f"{directory}/http.sock"
        server = await asyncio.get_running_loop().create_unix_server(connect, path)
        async with httpx.AsyncHTTPTransport(uds=path) as transport:
            yield transport
        server.close()


@contextlib.asynccontextmanager
async def open_gate(scripts: Scripts, settings: Settings, contents: ContentLoader | None = None) -> AsyncIterator[Gate]:
    """A gateway on these scripts."""
    gateway = Gateway(Context(settings, scripts.redis, scripts), contents=contents)
    headers = {"X-API-Key": API_KEY}
    async with (
        serve(gateway) as transport,
        httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers, timeout=60) as client,
    ):
        yield Gate(gateway, client, scripts.redis)


OpenGate = Callable[..., Awaitable[Gate]]


#: For tests of what both ways of serving the send routes must do. The others run with the hot path.
BOTH_MODES = pytest.mark.parametrize("hot_path", [True, False], ids=["hot", "ordinary"], indirect=True)


@pytest.fixture
def hot_path(request: pytest.FixtureRequest) -> bool:
    """Whether the hot path is switched on."""
    return bool(getattr(request, "param", True))


@pytest.fixture
async def gates(held: Scripts, clock: Clock, tmp_path: Path, hot_path: bool) -> AsyncIterator[OpenGate]:
    """Opens gateways with settings of the test's own, on a held clock at noon."""
    await clock.set(NOON_MS)
    async with contextlib.AsyncExitStack() as stack:

        async def opened(*, contents: ContentLoader | None = None, **changes: Any) -> Gate:
            settings = make_settings(tmp_path, gateway_hot_path=hot_path, **changes)
            return await stack.enter_async_context(open_gate(held, settings, contents))

        yield opened


@pytest.fixture
async def gate(gates: OpenGate) -> Gate:
    """A gateway with one hot, connected session `w1`."""
    one = await gates()
    await one.add_session()
    return one


@pytest.fixture
def private_redis() -> Iterator[RedisServer]:
    """A Redis that a test may break: killed, made read-only, starved."""
    with redis_server(*DURABLE) as server:
        yield server


def code_of(response: httpx.Response) -> str:
    """The code of an error answer."""
    return str(json.loads(response.content)["error"]["code"])


__all__ = ["API_KEY", "BOTH_MODES", "HELD_CLOCK", "NOON_MS", "PHONE", "Gate", "OpenGate", "code_of", "make_settings"]
