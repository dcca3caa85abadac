"""The cases of the guards right before a message is written. Importing this adds them."""

from tests.store.guards import case
from tests.store.scene import LEASE_MS, PHONE, Scene
from wa_orchestrator.store import keys
from wa_orchestrator.store.messages import holds, outbox, queues
from wa_orchestrator.store.messages.holds import Hold
from wa_orchestrator.store.outcomes import Fenced


@case("write_epoch")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.queued()
    await scene.release(message)
    await scene.register()
    await scene.claim(epoch=2)
    assert await scene.confirm_write(message, epoch=1) == Fenced(2)


@case("write_holder")
async def _(scene: Scene) -> None:
    await scene.connected()
    await scene.connected("w2")  # a sibling whose epoch is the same
    message = await scene.sending()
    assert await scene.confirm_write(message, session="w2") == outbox.NotHolder("sending")
    await scene.clock.pass_ms(LEASE_MS)
    await scene.reclaim(message)
    await queues.cancel(scene.scripts, scene.places[message])
    assert await scene.confirm_write(message) == outbox.NotHolder("unknown")


@case("write_opt_out")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.sending("97251")
    await scene.scripts.redis.hset(keys.OPT_OUTS, "97251", "{}")
    assert await scene.confirm_write(message) == outbox.WriteRefused("cancelled", "OPTED_OUT")
    assert await scene.status(message) == "cancelled"


@case("write_expired")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.sending(expires_ms=scene.clock.now_ms + 10)
    await scene.clock.pass_ms(10)
    assert await scene.confirm_write(message) == outbox.WriteRefused("expired", "EXPIRED")


@case("write_hold")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.sending()
    await holds.put(scene.scripts, Hold("all", scene.clock.now_ms + 1000, "lunch", "me"))
    assert await scene.confirm_write(message) == outbox.WriteRefused("queued", "HELD")
    # Nothing of it was written: once the hold is over it goes at once, and neither the day nor its attempts count it.
    await scene.clock.pass_ms(1000)
    assert isinstance(await scene.release(message, per_day=1), queues.Released)
    assert await scene.scripts.redis.hget(keys.message(message), "uncounted") == "1"
    assert isinstance(await scene.claim(), tuple)
    assert await scene.confirm_write(message) == outbox.Renewed(scene.clock.now_ms + LEASE_MS)


@case("write_hours")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.sending()
    closed = await scene.confirm_write(message, open_until_ms=scene.clock.now_ms)
    assert closed == outbox.WriteRefused("queued", "OUTSIDE_HOURS")


@case("write_reachout")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.sending("97251")
    await scene.scripts.redis.hset(keys.pace(PHONE), "lock_until", scene.clock.now_ms + 1000)
    await scene.scripts.redis.sadd(keys.contacts(PHONE), "97251")
    assert isinstance(await scene.confirm_write(message), outbox.Renewed)
    await scene.scripts.redis.srem(keys.contacts(PHONE), "97251")
    assert await scene.confirm_write(message) == outbox.WriteRefused("queued", "REACHOUT_LOCKED")
