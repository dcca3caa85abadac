"""The gateway in one process with a real Redis, spoken to over ASGI."""

import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis.asyncio import Redis

from tests.conftest import HELD_CLOCK, Clock
from tests.redis_server import DURABLE, RedisServer, redis_server
from wa_orchestrator.context import Context
from wa_orchestrator.gateway.app import Gateway, make_gateway
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
            self.scripts, sessions.NewSession(name, phone=phone, direct="direct"), per_proxy=4, per_phone=4
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
async def open_gate(scripts: Scripts, settings: Settings, **parts: Any) -> AsyncIterator[Gate]:
    """A gateway on these scripts."""
    gateway, app = make_gateway(Context(settings, scripts.redis, scripts))
    if contents := parts.get("contents"):
        gateway = Gateway(gateway.context, contents=contents)
        app = gateway.front(app)
    transport = httpx.ASGITransport(app=app)
    headers = {"X-API-Key": API_KEY}
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers) as client:
        try:
            yield Gate(gateway, client, scripts.redis)
        finally:
            await gateway.close()


OpenGate = Callable[..., Awaitable[Gate]]


@pytest.fixture
async def gates(held: Scripts, clock: Clock, tmp_path: Path) -> AsyncIterator[OpenGate]:
    """Opens gateways with settings of the test's own, on a held clock at noon."""
    await clock.set(NOON_MS)
    async with contextlib.AsyncExitStack() as stack:

        async def opened(*, parts: dict[str, Any] | None = None, **changes: Any) -> Gate:
            return await stack.enter_async_context(open_gate(held, make_settings(tmp_path, **changes), **(parts or {})))

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


__all__ = ["API_KEY", "HELD_CLOCK", "NOON_MS", "PHONE", "Gate", "OpenGate", "code_of", "make_settings"]
