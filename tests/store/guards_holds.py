"""The cases of the guards around holds. Importing this adds them."""

from tests.store.guards import case
from tests.store.scene import LEASE_MS, PHONE, Scene
from wa_orchestrator.store import keys, records, sessions
from wa_orchestrator.store.engine.compare_and_set import Changed
from wa_orchestrator.store.messages import holds, queues
from wa_orchestrator.store.messages.holds import SERVER, Hold
from wa_orchestrator.store.sessions import slots


@case("phone_hold")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.queued()
    await holds.put(scene.scripts, Hold(holds.of_phone(PHONE), scene.clock.now_ms + 1000, "BAN_SIGNAL", SERVER))
    assert await scene.release(message, holds=()) == queues.Held(f"phone:{PHONE}")
    await scene.clock.pass_ms(1000)
    assert isinstance(await scene.release(message, holds=()), queues.Released)


@case("longer_hold")
async def _(scene: Scene) -> None:
    for until_ms in (scene.clock.now_ms + 9000, scene.clock.now_ms + 9000, scene.clock.now_ms + 1000):
        await holds.put(scene.scripts, Hold("phone:1", until_ms, "BAN_SIGNAL", SERVER))
    assert (await records.holds(scene.scripts))["phone:1"].until_ms == scene.clock.now_ms + 9000
    assert await scene.scripts.redis.xlen(keys.EVENTS) == 1


@case("hold_over")
async def _(scene: Scene) -> None:
    await holds.put(scene.scripts, Hold("group:one", scene.clock.now_ms + 1000, "lunch", "me"))
    await scene.clock.pass_ms(1000)
    await holds.put(scene.scripts, Hold("group:two", scene.clock.now_ms + 1000, "lunch", "me"))
    assert list(await records.holds(scene.scripts)) == ["group:two"]


@case("lift_once")
async def _(scene: Scene) -> None:
    await holds.put(scene.scripts, Hold("all", scene.clock.now_ms + 1000, "lunch", "me"))
    outcomes = [await holds.lift(scene.scripts, "all", by="me") for _ in range(2)]
    assert outcomes == [holds.Lifted(), holds.NotHeld()]
    assert await scene.scripts.redis.xlen(keys.EVENTS) == 2


@case("replaced_hold")
async def _(scene: Scene) -> None:
    hold = Hold("session:w1", scene.clock.now_ms + 1000, "lunch", "me")
    assert await holds.put(scene.scripts, hold, expected=holds.NONE) == holds.Placed()
    assert await holds.put(scene.scripts, hold, expected=holds.NONE) == Changed()
    _, expected = await holds.look(scene.scripts, "session:w1")
    assert await holds.put(scene.scripts, hold, expected=expected) == holds.Placed()


@case("lifted_hold")
async def _(scene: Scene) -> None:
    hold = Hold("session:w1", scene.clock.now_ms + 1000, "lunch", "me")
    await holds.put(scene.scripts, hold)
    assert await holds.lift(scene.scripts, "session:w1", by="me", expected=holds.NONE) == Changed()
    _, expected = await holds.look(scene.scripts, "session:w1")
    assert await holds.lift(scene.scripts, "session:w1", by="me", expected=expected) == holds.Lifted()


@case("unclaimed")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.queued()
    for lost in (1, 2):
        await scene.release(message)
        await scene.clock.pass_ms(LEASE_MS)
        await scene.reclaim(message)
        assert await scene.scripts.redis.hget(keys.session("w1"), "unclaimed") == str(lost)
    await scene.claim()  # there is nothing, but it asks
    assert await scene.scripts.redis.hget(keys.session("w1"), "unclaimed") is None


@case("unclaimed_anew")
async def _(scene: Scene) -> None:
    await scene.connected()
    await scene.scripts.redis.hset(keys.session("w1"), "unclaimed", 3)
    again = slots.Binding(1, PHONE, "p1", "p1", await scene.version(), was=PHONE)
    assert isinstance(await slots.bind(scene.scripts, "w1", again, per_proxy=4, per_phone=4), slots.Bound)
    assert await scene.scripts.redis.hget(keys.session("w1"), "unclaimed") is None


@case("limits_exist")
async def _(scene: Scene) -> None:
    assert not await sessions.change(scene.scripts, "w1", {"limits": "{}"})
    assert await scene.scripts.redis.exists(keys.session("w1")) == 0


@case("limits_wake")
async def _(scene: Scene) -> None:
    await scene.connected()
    await scene.scripts.redis.delete(keys.DUE)
    await sessions.change(scene.scripts, "w1", {"limits": "{}"})
    assert await scene.scripts.redis.zscore(keys.DUE, PHONE) == scene.clock.now_ms
