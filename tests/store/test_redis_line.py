"""Calls on the line: the same replies as redis-py's own, one round trip, and each failure to its own caller."""

import asyncio
import contextlib
from typing import Any

import pytest
from redis.asyncio import ConnectionPool, Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import DataError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from tests.waiting import PATIENCE_S, until
from wa_orchestrator.store.engine import redis_line
from wa_orchestrator.store.engine.line_client import LineClient
from wa_orchestrator.store.engine.redis_line import CONNECTIONS
from wa_orchestrator.store.engine.scripts import Scripts


@pytest.fixture
def batched(redis: Redis) -> Scripts:
    """Three small scripts."""
    sources = {"echo": "return {'said', ARGV[1]}", "fail": "return redis.error_reply('NO way')", "nil": "return 1"}
    return Scripts(redis, sources=sources)


async def test_each_caller_gets_its_own_reply_although_redis_lost_all_scripts(batched: Scripts) -> None:
    for _ in range(2):
        answers = await asyncio.gather(*(batched.run("echo", [], [n]) for n in range(300)))
        assert answers == [["said", str(n)] for n in range(300)]
        await batched.redis.script_flush()  # as after a restart of Redis


async def test_a_call_that_fails_fails_alone(batched: Scripts) -> None:
    good, bad, other = await asyncio.gather(
        batched.run("echo", [], [1]), batched.run("fail", []), batched.run("echo", [], [2]), return_exceptions=True
    )
    assert (good, other) == (["said", "1"], ["said", "2"])
    assert isinstance(bad, ResponseError)


async def test_every_caller_gets_the_error_when_redis_is_unavailable() -> None:
    away = LineClient.from_url("unix:///nowhere/redis.sock", decode_responses=True, retry=None)
    batched = Scripts(away)
    answers = await asyncio.gather(*(batched.now_ms() for _ in range(3)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [RedisConnectionError] * 3
    await away.aclose()


async def test_the_time_is_that_of_redis_and_takes_no_script(redis: Redis, batched: Scripts) -> None:
    await redis.config_resetstat()
    before = await redis.time()
    now_ms, [missing] = await batched.now_and([("GET", "missing")])
    times = [before[0] * 1000 + before[1] // 1000, await batched.now_ms(), now_ms]
    assert max(times) - min(times) < PATIENCE_S * 1000
    assert missing is None
    assert not {"cmdstat_evalsha", "cmdstat_eval"} & set(await redis.info("commandstats"))


async def test_a_held_time_is_read_although_redis_lost_all_scripts(redis: Redis) -> None:
    held = Scripts(redis, clock="local function now_ms() return 1234 end")
    for _ in range(2):
        assert (await held.now_ms(), await held.now_and([("GET", "missing")])) == (1234, (1234, [None]))
        await redis.script_flush()


async def test_an_error_among_reads_is_raised(batched: Scripts) -> None:
    with pytest.raises(ResponseError):
        await batched.now_and([("NO_SUCH_COMMAND",)])


async def test_a_caller_that_gives_up_does_not_disturb_the_others(batched: Scripts) -> None:
    impatient = asyncio.create_task(batched.run("echo", [], [1]))
    patient = asyncio.create_task(batched.run("echo", [], [2]))
    await asyncio.sleep(0)
    impatient.cancel()
    assert await patient == ["said", "2"]


async def test_a_transaction_is_one_step_and_its_replies_are_those_of_its_commands(redis: Redis) -> None:
    async with redis.pipeline(transaction=True) as pipe:
        pipe.hset("h", mapping={"a": "1", "b": "2"})
        pipe.hgetall("h")
        pipe.zadd("z", {"m": 1.5})
        pipe.zrange("z", 0, -1, withscores=True)
        assert await pipe.execute() == [2, {"a": "1", "b": "2"}, 1, [("m", 1.5)]]


async def test_a_transaction_with_a_command_that_redis_refuses_does_nothing(redis: Redis) -> None:
    async with redis.pipeline(transaction=True) as pipe:
        pipe.set("kept", "no")
        pipe.execute_command("NO-SUCH-COMMAND")
        with pytest.raises(ResponseError, match="unknown command"):
            await pipe.execute()
    assert await redis.get("kept") is None


async def test_an_error_within_a_pipeline_is_raised_or_returned_as_the_caller_asks(redis: Redis) -> None:
    await redis.set("text", "x")
    for transaction in (True, False):
        pipe = redis.pipeline(transaction=transaction)
        pipe.incr("text").get("text")
        with pytest.raises(ResponseError, match="not an integer"):
            await pipe.execute()
        pipe.incr("text").get("text")
        error, text = await pipe.execute(raise_on_error=False)
        assert (type(error), text) == (ResponseError, "x")


async def test_a_command_that_waits_keeps_nobody_else_waiting(redis: Redis) -> None:
    waits = [asyncio.create_task(redis.blpop([f"list:{n}"], timeout=PATIENCE_S)) for n in range(2 * CONNECTIONS)]
    reads = asyncio.create_task(redis.xread({"stream": "0"}, block=round(PATIENCE_S * 1000)))
    for _ in range(2 * CONNECTIONS):
        assert await redis.ping()
    for n in range(2 * CONNECTIONS):
        await redis.rpush(f"list:{n}", n)
    await redis.xadd("stream", {"a": 1})
    assert [popped[1] for popped in await asyncio.gather(*waits)] == [str(n) for n in range(2 * CONNECTIONS)]
    assert await reads


async def test_a_lost_connection_fails_what_was_sent_and_nothing_is_sent_twice(redis: Redis) -> None:
    assert await redis.incr("count") == 1
    sent = [asyncio.create_task(redis.incr("count")) for _ in range(5)]
    await asyncio.sleep(0)
    killer = Redis.from_pool(redis.connection_pool)
    await killer.client_kill_filter(_type="normal", skipme=True)
    ends = await asyncio.gather(*sent, return_exceptions=True)
    assert all(isinstance(end, int | RedisConnectionError) for end in ends)
    told = sum(isinstance(end, int) for end in ends)
    assert 1 + told <= int(await redis.get("count") or 0) <= 6


async def test_a_redis_that_does_not_respond_in_time_fails_the_request_and_the_next_one_is_answered(
    redis_url: str, redis: Redis
) -> None:
    pool = ConnectionPool.from_url(redis_url, decode_responses=True)
    async with LineClient(connection_pool=pool, response_s=0.1) as impatient:

        async def answered() -> bool:
            with contextlib.suppress(RedisTimeoutError):
                return bool(await impatient.ping())
            return False

        await until(answered, "Redis is asked")
        await redis.client_pause(round(PATIENCE_S * 1000), all=False)  # writes only, so that somebody can end it
        with pytest.raises(RedisTimeoutError):
            await impatient.set("a", 1)
        await redis.client_unpause()
        await until(answered, "Redis is asked again")


@pytest.mark.parametrize("unknown", [object(), "half of a pair: \ud800"], ids=["an object", "no UTF-8"])
async def test_what_cannot_be_sent_fails_alone(redis: Redis, unknown: Any) -> None:
    good, bad = await asyncio.gather(redis.set("a", 1), redis.set("a", unknown), return_exceptions=True)
    assert (good, type(bad)) == (True, DataError)


async def test_more_requests_than_may_wait_are_refused_at_once(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_line, "MAX_WAITING", 3)
    ends = await asyncio.gather(*(redis.ping() for _ in range(5)), return_exceptions=True)
    assert [type(end) for end in ends] == [bool] * 3 + [RedisConnectionError] * 2
    assert await redis.ping()


async def test_a_line_that_is_closed_while_it_connects_ends_whichever_step_of_the_client_it_meets(
    redis_url: str,
) -> None:
    for steps in range(80):  # the client takes about 60 turns of the loop to connect, and loses a cancellation in two
        client = LineClient.from_url(redis_url, decode_responses=True)
        asked = asyncio.create_task(client.ping())
        for _ in range(steps):
            await asyncio.sleep(0)
        await asyncio.wait_for(client.aclose(), PATIENCE_S)
        asked.cancel()
