"""Redis away, read-only or out of memory: 503 and nothing taken, and back by itself."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.conftest import BOTH_MODES, Gate, code_of, make_settings, open_gate
from tests.redis_server import RedisServer
from tests.waiting import until
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.line_client import LineClient
from wa_orchestrator.store.engine.redis_line import RedisLine
from wa_orchestrator.store.engine.scripts import Scripts

pytestmark = BOTH_MODES


@pytest.fixture
async def fragile(
    private_redis: RedisServer, tmp_path: Path, hot_path: bool
) -> AsyncIterator[tuple[Gate, RedisServer]]:
    """A gateway on a Redis that may be broken. Real clock: outages are about real connections."""
    redis = LineClient.from_url(private_redis.url, decode_responses=True)
    settings = make_settings(tmp_path, hot_hours="00:00-00:00", gateway_hot_path=hot_path)
    async with open_gate(Scripts(redis), settings) as gate:
        await gate.add_session()
        assert (await gate.send()).status_code == 202
        yield gate, private_redis
    await redis.aclose()


async def test_without_redis_nothing_is_taken_and_it_comes_back_by_itself(fragile: tuple[Gate, RedisServer]) -> None:
    gate, server = fragile
    server.kill()
    for path in ("/api/v1/send", "/api/send"):
        response = await gate.client.post(path, json={"to": "972511111111", "text": "x"})
        assert (response.status_code, code_of(response)) == (503, "QUEUE_UNAVAILABLE")
        assert response.headers["retry-after"] == "2"
    batch = await gate.client.post("/api/v1/send/batch", json={"messages": [{"to": "972511111111", "text": "x"}]})
    assert (batch.status_code, code_of(batch)) == (503, "QUEUE_UNAVAILABLE")
    server.start()
    # The first request after the restart is answered well: a connection that lost its server is opened again.
    assert (await gate.send()).status_code == 202
    assert len(await gate.queued()) == 2


async def test_a_restart_of_redis_costs_no_request(fragile: tuple[Gate, RedisServer]) -> None:
    gate, server = fragile
    await asyncio.gather(*(gate.send() for _ in range(20)))  # all connections are in use
    server.kill()
    server.start()
    await asyncio.sleep(0)
    answers = await asyncio.gather(*(gate.send() for _ in range(20)))
    assert {answer.status_code for answer in answers} == {202}  # scripts are loaded again, too


async def test_a_read_only_redis_takes_nothing(fragile: tuple[Gate, RedisServer]) -> None:
    gate, _ = fragile
    await gate.redis.execute_command("REPLICAOF", "127.0.0.1", "1")  # type: ignore[no-untyped-call]
    response = await gate.send()
    assert (response.status_code, code_of(response)) == (503, "QUEUE_UNAVAILABLE")
    await gate.redis.execute_command("REPLICAOF", "NO", "ONE")  # type: ignore[no-untyped-call]
    assert (await gate.send()).status_code == 202
    assert len(await gate.queued()) == 2


async def test_a_redis_without_memory_takes_nothing(fragile: tuple[Gate, RedisServer]) -> None:
    gate, _ = fragile
    await gate.redis.config_set("maxmemory", "1")
    accepted = await gate.redis.hget(keys.COUNTS, "accepted")
    response = await gate.send(headers={"Idempotency-Key": "k"})
    assert (response.status_code, code_of(response)) == (503, "QUEUE_UNAVAILABLE")
    await gate.redis.config_set("maxmemory", "0")
    assert await gate.redis.hget(keys.COUNTS, "accepted") == accepted
    assert (await gate.send(headers={"Idempotency-Key": "k"})).status_code == 202


async def test_a_redis_that_does_not_answer_is_given_up_on(fragile: tuple[Gate, RedisServer]) -> None:
    gate, _ = fragile
    await _wait_at_most(gate, 0.2)
    await gate.redis.execute_command("CLIENT", "PAUSE", 1500, "ALL")  # type: ignore[no-untyped-call]
    response = await gate.send()
    assert (response.status_code, code_of(response)) == (503, "QUEUE_UNAVAILABLE")

    async def sends() -> bool:
        return (await gate.send()).status_code == 202

    await until(sends, "a message is taken again")


async def _wait_at_most(gate: Gate, seconds: float) -> None:
    line = gate.scripts.line
    await line.close()
    line._connections = RedisLine(gate.scripts.redis.connection_pool, seconds)._connections


async def test_the_state_of_a_message_is_not_known_without_redis(fragile: tuple[Gate, RedisServer]) -> None:
    gate, server = fragile
    message_id = (await gate.queued())[0]
    server.kill()
    response = await gate.client.get(f"/api/v1/messages/{message_id}")
    assert response.status_code == 503
    server.start()
    assert (await gate.client.get(f"/api/v1/messages/{message_id}")).status_code == 200
