"""The dispatcher's loop: it sleeps until something is due, wakes at once, and survives outages of Redis."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import RedisError

from tests.dispatcher.scenario import Scenario, settings
from tests.waiting import promised, until
from wa_orchestrator.dispatcher import dispatcher
from wa_orchestrator.dispatcher.dispatcher import Dispatcher
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.embedded_redis import EmbeddedRedis
from wa_orchestrator.store.engine.line_client import LineClient
from wa_orchestrator.store.engine.scripts import Scripts

A = "972500000001"
ALL_DAY = '{"opens": "00:00", "closes": "00:00"}'


@contextlib.asynccontextmanager
async def running(scenario: Scenario) -> AsyncIterator[None]:
    """A dispatcher that runs."""
    task = asyncio.create_task(Dispatcher(scenario.context).run())
    try:
        yield
    finally:
        while not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=0.05)


async def test_a_sleeping_dispatcher_is_woken_by_an_acceptance(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "LONGEST_SLEEP_S", 600.0)
    monkeypatch.setattr(dispatcher, "SWEEP_EVERY_S", 600.0)
    scenario = Scenario(scripts, settings())
    await scenario.connect("w1", A, limits=ALL_DAY)
    async with running(scenario):

        async def asleep() -> bool:
            heard: Any = await scripts.redis.pubsub_numsub(keys.WAKE)
            return bool(heard[0][1])

        await until(asleep, "the dispatcher sleeps")
        message = await scenario.accept("w1", A)

        async def released() -> bool:
            return await scenario.status(message) == "scheduled"

        await until(released, "it is released, although the dispatcher would sleep on")


async def test_a_phone_whose_wake_up_was_lost_sends_a_little_later(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "WAKE_SLEEPERS_EVERY_S", 0.2)
    scenario = Scenario(scripts, settings())
    await scenario.connect("w1", A, limits=ALL_DAY)
    message = await scenario.accept("w1", A)
    await scenario.dispatcher().router.step()
    await scripts.redis.delete(keys.DUE)
    async with running(scenario):

        async def released() -> bool:
            return await scenario.status(message) == "scheduled"

        await until(released, "it is released")


async def test_a_dispatcher_ends_although_a_library_swallowed_its_cancellation(
    scripts: Scripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "LONGEST_SLEEP_S", 600.0)
    monkeypatch.setattr(dispatcher, "SWEEP_EVERY_S", 600.0)
    subject, entered = Dispatcher(Scenario(scripts, settings()).context), asyncio.Event()

    async def connects_again() -> int:  # as the Redis client does
        entered.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return 0

    monkeypatch.setattr(subject.router, "step", connects_again)
    task = asyncio.create_task(subject.run())
    await entered.wait()
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=promised(5))
    assert done


async def test_an_idle_dispatcher_makes_few_calls(scripts: Scripts) -> None:
    scenario = Scenario(scripts, settings())
    for n in range(50):
        await scenario.connect(f"w{n}", f"9725000000{n:02d}", limits=ALL_DAY)
    async with running(scenario):

        async def idle() -> bool:
            return not await scripts.redis.zcard(keys.DUE)

        await until(idle, "nothing is due")
        before: Any = await scripts.redis.info("stats")
        await asyncio.sleep(0.8)
        after: Any = await scripts.redis.info("stats")
    assert after["total_commands_processed"] - before["total_commands_processed"] < 60


@pytest.mark.parametrize("outage", ["killed", "read_only"])
async def test_after_an_outage_of_redis_it_continues_within_five_seconds(tmp_path: Path, outage: str) -> None:
    server = EmbeddedRedis(tmp_path)
    await server.start()
    redis = LineClient.from_url(server.url, decode_responses=True)
    scenario = Scenario(Scripts(redis), settings())
    await scenario.connect("w1", A, limits=ALL_DAY)
    async with running(scenario):
        if outage == "killed":
            found: Any = await redis.info("server")
            os.kill(int(found["process_id"]), signal.SIGKILL)
        else:
            await redis.execute_command("REPLICAOF", "127.0.0.1", "1")  # type: ignore[no-untyped-call]
            await asyncio.sleep(0.3)
            await redis.execute_command("REPLICAOF", "NO", "ONE")  # type: ignore[no-untyped-call]

        async def answers() -> bool:
            try:
                return bool(await redis.ping())
            except RedisError:
                return False

        await until(answers, "Redis answers")
        message = await scenario.accept("w1", A)

        async def released() -> bool:
            return await scenario.status(message) == "scheduled"

        await until(released, "it goes on by itself", promised(5))
    await redis.aclose()
    await server.stop()
