"""Scripts in batches: the same replies, one round trip, and each failure to its own caller."""

import asyncio

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from wa_orchestrator.store.engine.pipelined_scripts import PipelinedScripts
from wa_orchestrator.store.engine.scripts import Scripts


@pytest.fixture
def batched(redis: Redis) -> PipelinedScripts:
    """Three small scripts."""
    sources = {"echo": "return {'said', ARGV[1]}", "fail": "return redis.error_reply('NO way')", "nil": "return 1"}
    return PipelinedScripts(Scripts(redis, sources=sources))


async def test_each_caller_gets_its_own_reply_although_redis_lost_all_scripts(batched: PipelinedScripts) -> None:
    for _ in range(2):
        answers = await asyncio.gather(*(batched.run("echo", [], [n]) for n in range(300)))
        assert answers == [["said", str(n)] for n in range(300)]
        await batched.redis.script_flush()  # as after a restart of Redis


async def test_a_call_that_fails_fails_alone(batched: PipelinedScripts) -> None:
    good, bad, other = await asyncio.gather(
        batched.run("echo", [], [1]), batched.run("fail", []), batched.run("echo", [], [2]), return_exceptions=True
    )
    assert (good, other) == (["said", "1"], ["said", "2"])
    assert isinstance(bad, ResponseError)


async def test_every_caller_gets_the_error_when_redis_is_unavailable() -> None:
    away = Redis.from_url("unix:///nowhere/redis.sock", decode_responses=True, retry=None)
    batched = PipelinedScripts(Scripts(away))
    answers = await asyncio.gather(*(batched.now_ms() for _ in range(3)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [RedisConnectionError] * 3
    await away.aclose()


async def test_a_caller_that_gives_up_does_not_disturb_the_others(batched: PipelinedScripts) -> None:
    impatient = asyncio.create_task(batched.run("echo", [], [1]))
    patient = asyncio.create_task(batched.run("echo", [], [2]))
    await asyncio.sleep(0)
    impatient.cancel()
    assert await patient == ["said", "2"]
