"""The stories of the guards around contacts, bursts, locks and another sender. Importing this adds them."""

from tests.store.guards import story
from tests.store.scene import PHONE, Scene
from wa_orchestrator.store import contacts, keys, queueing, rerouting

OTHER = "972500000002"


@story("reroute_waiting")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.sending()
    moved = await rerouting.reroute(scene.scripts, scene.places[message], phone=OTHER, session="w2")
    assert moved == queueing.TooLate("sending")
    assert await scene.scripts.redis.llen(keys.GATEWAY_JOBS) == 0


@story("burst_once")
async def _(scene: Scene) -> None:
    for _ in range(2):
        await rerouting.mark_burst(scene.scripts, PHONE, session="w1", submitted=99, burst_ms=1000)
    assert await scene.scripts.redis.xlen(keys.EVENTS) == 1


@story("lock_guess")
async def _(scene: Scene) -> None:
    told = scene.clock.now_ms + 90_000
    await contacts.lock(scene.scripts, PHONE, session="w1", until_ms=told, source="told")
    await contacts.lock(scene.scripts, PHONE, session="w1", until_ms=told - 1000, source="guessed")
    assert await scene.scripts.redis.hget(keys.pace(PHONE), "lock_until") == str(told)


@story("lock_news")
async def _(scene: Scene) -> None:
    for _ in range(2):
        await contacts.lock(scene.scripts, PHONE, session="w1", until_ms=scene.clock.now_ms + 90_000, source="told")
    assert await scene.scripts.redis.xlen(keys.EVENTS) == 1


@story("still_aside")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.queued()
    await scene.scripts.redis.hset(keys.pace(PHONE), "lock_until", scene.clock.now_ms + 90_000)
    assert await scene.release(message) == queueing.SetAside()
    assert await contacts.reopen(scene.scripts, PHONE, [message, "m_unknown"]) == 1
    assert await scene.scripts.redis.zrange(keys.queue(PHONE), 0, -1) == [message]


@story("receive_once")
async def _(scene: Scene) -> None:
    said = contacts.Incoming("w1", PHONE, "3EB0AA", "text", "97251", "123", {"text": "hello"})
    assert await contacts.receive(scene.scripts, said, keep_ms=1000) == contacts.New()
    assert await contacts.receive(scene.scripts, said, keep_ms=1000) == contacts.Known()


@story("opt_out_once")
async def _(scene: Scene) -> None:
    assert await contacts.opt_out(scene.scripts, "97251", word="STOP", via="reply") == contacts.New()
    assert await contacts.opt_out(scene.scripts, "97251", word="STOP", via="reply") == contacts.Known()
    assert await scene.scripts.redis.xlen(keys.EVENTS) == 1
