"""Redis with Sentinels: who is the primary, what counts as written, and what is refused."""

import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ReadOnlyError, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from tests.redis_group import SERVICE, RedisGroup, redis_group
from tests.redis_server import redis_server
from tests.waiting import until
from wa_orchestrator.errors import Refused
from wa_orchestrator.store.engine import durability, redis_line
from wa_orchestrator.store.engine.durability import Weakness
from wa_orchestrator.store.engine.line_client import LineClient
from wa_orchestrator.store.engine.redis_pool import PrimaryPool, make_pool
from wa_orchestrator.store.engine.scripts import Scripts


@pytest.fixture
def group() -> Iterator[RedisGroup]:
    with redis_group(replicas=2) as made:
        yield made


@asynccontextmanager
async def client(url: str, replicas: int = 0) -> AsyncIterator[LineClient]:
    redis = LineClient(connection_pool=make_pool(url, decode_responses=True, socket_timeout=5), replicas=replicas)
    try:
        yield redis
    finally:
        await redis.aclose(close_connection_pool=True)


async def test_what_was_acknowledged_is_there_after_the_primary_was_killed(group: RedisGroup) -> None:
    acknowledged = []
    async with client(group.url, replicas=1) as redis:
        await until(lambda: _is_written(redis), "a replica follows")
        for number in range(200):
            if number == 100:
                group.signal(0, signal.SIGKILL)
            with suppress(RedisError):
                await redis.set(f"message:{number}", "accepted")
                acknowledged.append(f"message:{number}")

        await until(lambda: _is_written(redis), "a replica became the primary, and another one confirms its writes")
        assert len(acknowledged) >= 100
        assert set(await redis.mget(acknowledged)) == {"accepted"}


async def test_a_write_that_no_replica_confirms_does_not_count_and_reads_go_on(group: RedisGroup) -> None:
    async with client(group.url, replicas=1) as redis:
        await until(lambda: _is_written(redis), "a replica follows")
        for number in (1, 2):
            group.signal(number, signal.SIGSTOP)
        with pytest.raises(RedisTimeoutError, match="0 of 1 replicas"):
            await redis.set("name", "after")
        assert await redis.get("name") == "after"
        for number in (1, 2):
            group.signal(number, signal.SIGCONT)
        await until(lambda: _is_written(redis), "a replica confirms again")


async def test_a_repeated_request_counts_only_when_a_replica_has_what_the_first_one_wrote(group: RedisGroup) -> None:
    once = "return redis.call('SET', KEYS[1], 'accepted', 'NX') or redis.call('GET', KEYS[1])"
    async with client(group.url, replicas=1) as redis, client(group.url, replicas=1) as again:
        for each in (redis, again):
            await until(lambda each=each: _is_written(each), "a replica follows")
        for number in (1, 2):
            group.signal(number, signal.SIGSTOP)
        for each in (redis, again):  # the second one finds it there, and writes nothing
            with pytest.raises(RedisTimeoutError, match="0 of 1 replicas"):
                await each.eval(once, 1, "message:1")
        for number in (1, 2):
            group.signal(number, signal.SIGCONT)

        async def is_answered() -> bool:
            with suppress(RedisError):
                return bool(await again.eval(once, 1, "message:1") == "accepted")
            return False

        await until(is_answered, "a replica confirms again")


async def test_what_is_only_read_can_be_confirmed_too(group: RedisGroup) -> None:
    async with client(group.url, replicas=1) as redis, client(group.url) as reader:
        await until(lambda: _is_written(redis), "a replica follows")
        for number in (1, 2):
            group.signal(number, signal.SIGSTOP)
        with pytest.raises(RedisTimeoutError, match="0 of 1 replicas"):
            await Scripts(redis).confirmed()
        await Scripts(reader).confirmed()  # nobody asked for replicas
        for number in (1, 2):
            group.signal(number, signal.SIGCONT)


async def test_too_few_replicas_and_a_failover_that_loses_writes_are_told(group: RedisGroup) -> None:
    async with client(group.url, replicas=2) as redis:  # waits until both replicas follow
        await until(lambda: _is_written(redis), "both replicas follow")
    assert Weakness.FAILOVER_LOSES_WRITES in (await durability.check(group.url)).weaknesses
    with_ack = (await durability.check(group.url, 2)).weaknesses
    assert not {Weakness.FAILOVER_LOSES_WRITES, Weakness.TOO_FEW_REPLICAS} & set(with_ack)
    assert Weakness.TOO_FEW_REPLICAS in (await durability.check(group.url, 3)).weaknesses


async def _is_written(redis: Redis) -> bool:
    with suppress(RedisError):
        return bool(await redis.set("name", "value"))
    return False


class _Sentinels:
    """Names one primary after the other, as Sentinels do after a failover."""

    def __init__(self, *addresses: tuple[str, int]) -> None:
        self.addresses = list(addresses)

    async def discover_master(self, service: str) -> tuple[str, int]:
        assert service == SERVICE
        return self.addresses[0]

    async def aclose(self) -> None:
        pass


async def test_a_primary_that_became_a_replica_is_left_at_its_first_refusal() -> None:
    with redis_group(replicas=1) as group:
        old, new = (("127.0.0.1", port) for port in group.ports)
        sentinels: Any = _Sentinels(old)
        pool = PrimaryPool(SERVICE, sentinels, decode_responses=True)  # type: ignore[no-untyped-call]
        redis = LineClient(connection_pool=pool)
        async with Redis(port=old[1]) as was_primary, Redis(port=new[1]) as becomes_primary:
            for _ in range(8):  # every connection of the line is open
                await redis.set("name", "before")
            sentinels.addresses = [new]
            await becomes_primary.replicaof("NO", "ONE")
            await was_primary.replicaof("127.0.0.1", str(new[1]))
            refused = 0

            async def moved() -> bool:
                nonlocal refused
                try:
                    await redis.set("name", "after")
                except (ReadOnlyError, RedisConnectionError, RedisTimeoutError):
                    refused += 1
                    return False
                return True

            for _ in range(8):
                await until(moved, "the line writes to the new primary")
            assert await becomes_primary.get("name") == b"after"
        assert refused <= 8
        await redis.aclose(close_connection_pool=True)


async def test_a_redis_that_is_read_only_is_left_where_its_name_leads_to_another_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(redis_line, "_STAYS_S", 0.0)
    with redis_group(replicas=1) as group:
        old, new = group.ports
        async with (
            client(f"redis://127.0.0.1:{old}/0") as redis,
            Redis(port=old) as was_primary,
            Redis(port=new) as becomes_primary,
        ):
            for _ in range(8):  # every connection of the line is open
                await redis.set("name", "before")
            await becomes_primary.replicaof("NO", "ONE")
            await was_primary.replicaof("127.0.0.1", str(new))
            for each in redis.line._connections:  # as a name does that leads to another address now
                each._connection.port = new

            async def moved() -> bool:
                with suppress(ReadOnlyError, RedisConnectionError, RedisTimeoutError):
                    return bool(await redis.set("name", "after"))
                return False

            for _ in range(8):
                await until(moved, "the line writes to the new primary")
            assert await becomes_primary.get("name") == b"after"


async def test_a_cluster_is_refused_with_the_reason() -> None:
    options = ("--cluster-enabled", "yes", "--save", "", "--appendonly", "no")
    with redis_server(*options) as server, pytest.raises(Refused, match="cluster mode") as refused:
        await durability.check(server.url)
    assert refused.value.code == "REDIS_CLUSTER"
