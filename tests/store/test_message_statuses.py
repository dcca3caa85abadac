"""The scripts move a message exactly as the table in `domain.messages.message` says: no transition more, and none less."""

from collections.abc import Awaitable, Callable, Mapping
from itertools import product

from redis.asyncio import Redis

from tests.conftest import Clock
from tests.store.scene import LEASE_MS, Scene
from wa_orchestrator.domain.messages.failures import Doubt
from wa_orchestrator.domain.messages.message import MessageStatus, may_become
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import queues

S = MessageStatus


async def _released(scene: Scene) -> str:
    message = await scene.queued()
    await scene.release(message)
    return message


async def _after(scene: Scene, reach: Callable[[Scene], Awaitable[str]], script: str) -> str:
    message = await reach(scene)
    await SCRIPTS[script](scene, message)
    return message


#: How a message gets into each status.
REACH: Mapping[S, Callable[[Scene], Awaitable[str]]] = {
    S.QUEUED: lambda scene: scene.queued(),
    S.SCHEDULED: _released,
    S.SENDING: lambda scene: scene.sending(),
    S.CANCELLED: lambda scene: _after(scene, Scene.queued, "cancel"),
    S.EXPIRED: lambda scene: _after(scene, Scene.queued, "expire"),
    S.FAILED: lambda scene: _after(scene, Scene.sending, "nack and give up"),
    S.UNKNOWN: lambda scene: _after(scene, Scene.sending, "nack in doubt and give up"),
    S.SENT: lambda scene: _after(scene, Scene.sending, "ack sent"),
    S.DELIVERED: lambda scene: _after(scene, Scene.sending, "ack delivered"),
    S.READ: lambda scene: _after(scene, Scene.sending, "ack read"),
}


async def _reclaim(scene: Scene, message: str, most_crashes: int) -> None:
    await scene.clock.pass_ms(LEASE_MS)
    await scene.reclaim(message, most_crashes)


async def _write_after_opt_out(scene: Scene, message: str) -> None:
    await scene.scripts.redis.hset(keys.OPT_OUTS, scene.recipients[message], "{}")
    await scene.confirm_write(message)


async def _write_after_expiry(scene: Scene, message: str) -> None:
    await scene.scripts.redis.hset(keys.message(message), "expires_at", scene.clock.now_ms)
    await scene.confirm_write(message)


#: Every script that may change the status of a message, in each way in which it can.
SCRIPTS: Mapping[str, Callable[[Scene, str], Awaitable[object]]] = {
    "release": lambda scene, message: scene.release(message),
    "claim": lambda scene, _: scene.claim(),
    "ack sent": lambda scene, message: scene.ack(message, "sent"),
    "ack delivered": lambda scene, message: scene.ack(message, "delivered"),
    "ack read": lambda scene, message: scene.ack(message, "read"),
    "nack and retry": lambda scene, message: scene.nack(message, backoff_ms=0),
    "nack and give up": lambda scene, message: scene.nack(message, backoff_ms=None),
    "nack in doubt and give up": lambda scene, message: scene.nack(message, backoff_ms=None, doubt=Doubt.RAISED),
    "reclaim": lambda scene, message: _reclaim(scene, message, 20),
    "reclaim after too many crashes": lambda scene, message: _reclaim(scene, message, 1),
    "write": lambda scene, message: scene.confirm_write(message),
    "write after closing time": lambda scene, message: scene.confirm_write(message, open_until_ms=scene.clock.now_ms),
    "write after an opt-out": _write_after_opt_out,
    "write after its expiry": _write_after_expiry,
    "cancel": lambda scene, message: queues.cancel(scene.scripts, scene.places[message]),
    "expire": lambda scene, message: queues.expire(scene.scripts, scene.places[message]),
    "fail": lambda scene, message: queues.fail(scene.scripts, scene.places[message], reason="NO_SENDER", counted="day"),
    "confirm": lambda scene, message: queues.confirm(
        scene.scripts, scene.places[message], to=scene.recipients[message], counted=("of session", "of all")
    ),
    "retry": lambda scene, message: queues.retry(scene.scripts, scene.places[message], to=scene.recipients[message]),
}


async def test_the_scripts_make_every_legal_transition_and_no_other(held: Scripts, redis: Redis, clock: Clock) -> None:
    made = set()
    for before, (name, script), in_doubt in product(S, SCRIPTS.items(), ("", "1")):
        await redis.flushall()
        await clock.set(clock.now_ms)
        scene = Scene(held, clock)
        await scene.connected()
        message = await REACH[before](scene)
        assert await scene.status(message) == before
        await redis.hset(keys.message(message), "in_doubt", in_doubt)
        await script(scene, message)
        after = S(await scene.status(message))
        assert after is before or may_become(before, after), f"{name}: {before} became {after}"
        made.add((before, after))
    assert {pair for pair in made if pair[0] is not pair[1]} == {pair for pair in product(S, S) if may_become(*pair)}
