"""The cases of the guards against steps of Redis' clock. Importing this adds them."""

from tests.store.guards import case
from tests.store.scene import PAUSE_MS, PHONE, Scene
from wa_orchestrator.store import keys, leases
from wa_orchestrator.store.messages import queues

HOUR_MS = 3_600_000


@case("silence_length")
async def _(scene: Scene) -> None:
    await scene.connected()
    first, second = await scene.sending(), await scene.queued()
    await scene.ack(first)
    await scene.clock.pass_ms(-HOUR_MS)
    # Neither an hour nor nothing: the pause starts again, once.
    for _ in range(2):
        wait = await scene.release(second)
        assert wait == queues.Wait(scene.clock.now_ms + PAUSE_MS, "PAUSE")
    await scene.clock.pass_ms(PAUSE_MS)
    assert isinstance(await scene.release(second), queues.Released)


@case("sent_in_future")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.queued()
    await scene.scripts.redis.zadd(keys.sent(PHONE), {"before#1": scene.clock.now_ms + HOUR_MS})
    wait = await scene.release(message, per_minute=1)
    assert wait == queues.Wait(scene.clock.now_ms + 60_000, "MINUTE_IS_FULL")
    await scene.clock.pass_ms(60_000)
    assert isinstance(await scene.release(message, per_minute=1), queues.Released)


@case("rate_ahead")
async def _(scene: Scene) -> None:
    async def call() -> leases.Allowed | leases.Limited:
        return leases.read_rate(await scene.scripts.run("spend_rate", [keys.rate("key")], [1_000, 2, 1]))

    assert [await call(), await call(), await call()] == [leases.Allowed(1), leases.Allowed(0), leases.Limited(1_000)]
    await scene.clock.pass_ms(-HOUR_MS)
    assert await call() == leases.Allowed(1)
