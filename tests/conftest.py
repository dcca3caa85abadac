"""What all rooms share: one private Redis per test process, on a Unix socket, empty before every test."""

import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from redis.asyncio import Redis

from tests.redis_server import FORGETFUL, redis_server
from wa_orchestrator import audit_log
from wa_orchestrator.context import Context
from wa_orchestrator.store.engine.line_client import LineClient
from wa_orchestrator.store.engine.scripts import Scripts

# A shell starts background jobs with Ctrl-C ignored, and what they start inherits that; tests end programs by it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says something about the machine. CI tries the same examples every time; people, new ones.
settings.register_profile("people", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("people"), derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "people")

HELD_CLOCK = "local function now_ms() return tonumber(redis.call('GET', 'test:clock')) end"
"""Replaces the scripts' clock, so that a test says what time it is."""


@pytest.fixture(scope="session", autouse=True)
def audit_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the audit log of tests that choose no data directory out of the current one."""
    chosen, otherwise = audit_log.path_of, tmp_path_factory.mktemp("audit") / audit_log.FILE_NAME
    with pytest.MonkeyPatch.context() as patch:

        def path_of(context: Context) -> Path:
            return otherwise if context.settings.data_dir == Path("data") else chosen(context)

        patch.setattr(audit_log, "path_of", path_of)
        yield


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """A private Redis for this test process; nothing is written to disk."""
    with redis_server(*FORGETFUL) as server:
        yield server.url


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    """An empty Redis."""
    client = LineClient.from_url(redis_url, decode_responses=True)
    await client.flushall()
    yield client
    await client.aclose()


@pytest.fixture
def scripts(redis: Redis) -> Scripts:
    """The scripts with Redis' own clock."""
    return Scripts(redis)


class Clock:
    """The time of the scripts, held by the test."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self.now_ms = 1_750_000_000_000

    async def set(self, now_ms: int) -> None:
        """Say what time it is."""
        self.now_ms = now_ms
        await self._redis.set("test:clock", now_ms)

    async def pass_ms(self, ms: int) -> None:
        """Let time pass."""
        await self.set(self.now_ms + ms)


@pytest.fixture
async def clock(redis: Redis) -> Clock:
    """A held clock; use it together with `held`."""
    held = Clock(redis)
    await held.set(held.now_ms)
    return held


@pytest.fixture
def held(redis: Redis, clock: Clock) -> Scripts:
    """The scripts with the test's clock."""
    return Scripts(redis, clock=HELD_CLOCK)
