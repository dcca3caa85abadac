"""The loop itself: it sleeps until something is due, is woken at once, and outlives Redis."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError

from tests.dispatcher.stage import Stage, settings
from wa_orchestrator.dispatcher.dispatcher import Dispatcher
from wa_orchestrator.store import keys
from wa_orchestrator.store.embedded import EmbeddedRedis
from wa_orchestrator.store.scripts import Scripts

A = "972500000001"
ALL_DAY = '{"opens": "00:00", "closes": "00:00"}'


@contextlib.asynccontextmanager
async def running(stage: Stage) -> AsyncIterator[None]:
    """A dispatcher that runs."""
    task = asyncio.create_task(Dispatcher(stage.context).run())
    try:
        yield
    finally:
        while not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=0.05)


async def until(condition: Callable[[], Awaitable[bool]], seconds: float) -> float:
    """Wait for something to become true; how long it took."""
    begun = time.monotonic()
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110 (it waits for any condition)
            await asyncio.sleep(0.005)
    return time.monotonic() - begun


async def test_a_sleeping_dispatcher_is_woken_by_an_acceptance(scripts: Scripts) -> None:
    stage = Stage(scripts, settings())
    await stage.connect("w1", A, limits=ALL_DAY)
    async with running(stage):

        async def asleep() -> bool:
            heard: Any = await scripts.redis.pubsub_numsub(keys.WAKE)
            return bool(heard[0][1])

        await until(asleep, 5)
        message = await stage.accept("w1", A)

        async def released() -> bool:
            return await stage.status(message) == "scheduled"

        assert await until(released, 5) < 1


async def test_an_idle_dispatcher_hardly_asks(scripts: Scripts) -> None:
    stage = Stage(scripts, settings())
    for n in range(50):
        await stage.connect(f"w{n}", f"9725000000{n:02d}", limits=ALL_DAY)
    async with running(stage):
        due: Any = 1
        while due:
            due = await scripts.redis.zcard(keys.DUE)
        before: Any = await scripts.redis.info("stats")
        await asyncio.sleep(0.8)
        after: Any = await scripts.redis.info("stats")
    assert after["total_commands_processed"] - before["total_commands_processed"] < 60


@pytest.mark.parametrize("outage", ["killed", "read_only"])
async def test_after_an_outage_of_redis_it_goes_on_by_itself_within_five_seconds(tmp_path: Path, outage: str) -> None:
    server = EmbeddedRedis(tmp_path)
    await server.start()
    redis = Redis.from_url(server.url, decode_responses=True)
    stage = Stage(Scripts(redis), settings())
    await stage.connect("w1", A, limits=ALL_DAY)
    async with running(stage):
        if outage == "killed":
            found: Any = await redis.info("server")
            os.kill(int(found["process_id"]), signal.SIGKILL)
        else:
            await redis.execute_command("REPLICAOF", "127.0.0.1", "1")
            await asyncio.sleep(0.3)
            await redis.execute_command("REPLICAOF", "NO", "ONE")

        async def answers() -> bool:
            try:
                return bool(await redis.ping())
            except RedisError:
                return False

        await until(answers, 10)
        message = await stage.accept("w1", A)

        async def released() -> bool:
            return await stage.status(message) == "scheduled"

        assert await until(released, 10) < 5
    await redis.aclose()
    await server.stop()
