"""A key that another program has taken is named before anything uses it."""

from redis.asyncio import Redis

from tests.conftest import Clock
from tests.store.scene import PHONE, Scene
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine import key_types
from wa_orchestrator.store.engine.scripts import Scripts


async def test_a_redis_of_our_own_has_no_wrong_keys(held: Scripts, clock: Clock) -> None:
    scene = Scene(held, clock)
    await scene.connected()
    await scene.sending()
    await scene.queued()
    assert await key_types.problems(held) == []


async def test_a_queue_of_another_type_is_named(held: Scripts, clock: Clock, redis: Redis) -> None:
    await Scene(held, clock).connected()
    await redis.lpush(keys.queue(PHONE), "{}")
    assert await key_types.problems(held) == [f"the key queue:session:{PHONE} is a list and must be a zset"]


async def test_a_key_with_a_fixed_name_is_named(scripts: Scripts, redis: Redis) -> None:
    await redis.set(keys.SESSIONS_ALL, "worker_1")
    assert await key_types.problems(scripts) == ["the key sessions:all is a string and must be a set"]


async def test_a_redis_that_is_not_there_yet_is_no_problem() -> None:
    assert await key_types.problems(Scripts(Redis(unix_socket_path="/nonexistent/redis.sock"))) == []
