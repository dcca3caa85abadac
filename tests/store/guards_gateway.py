"""The cases of the guards around admission and forgetting. Importing this adds them."""

from tests.store.guards import case
from tests.store.scene import Scene
from wa_orchestrator.store import keys
from wa_orchestrator.store.history import retention
from wa_orchestrator.store.leases import Limited
from wa_orchestrator.store.messages import admission, message_index, queues
from wa_orchestrator.store.messages.message_keys import Place
from wa_orchestrator.store.sessions import changes


@case("admitted")
async def _(scene: Scene) -> None:
    rate = admission.Rate("key", gap_ms=100, burst=1)
    two = [admission.wanted(scene.message(), scene.room(), None) for _ in range(2)]
    answers = await scene.scripts.run("admit_messages", *admission.admit_call(rate, two))
    assert admission.read_admission(answers[1]) == Limited(100)
    assert await scene.scripts.redis.llen(keys.GATEWAY_JOBS) == 1


@case("ended_long_ago")
async def _(scene: Scene) -> None:
    await scene.connected()
    message = await scene.sending()
    assert not await retention.erase(scene.scripts, message, until_ms=scene.clock.now_ms + 1000)
    await scene.ack(message)
    assert not await retention.erase(scene.scripts, message, until_ms=scene.clock.now_ms - 1)
    assert await retention.erase(scene.scripts, message, until_ms=scene.clock.now_ms)
    assert await scene.scripts.redis.exists(keys.message(message), keys.timeline(message)) == 0


@case("one_sender")
async def _(scene: Scene) -> None:
    first = await admission.accept(scene.scripts, scene.message(affinity=""), scene.room())
    assert isinstance(first, admission.Accepted)
    second = await admission.accept(scene.scripts, scene.message(session="w2", affinity=""), scene.room())
    assert second == admission.OtherSender("w1")
    assert isinstance(
        await admission.accept(scene.scripts, scene.message(affinity="w1"), scene.room()), admission.Accepted
    )


@case("set_aside_once")
async def _(scene: Scene) -> None:
    await scene.scripts.redis.rpush(keys.GATEWAY_JOBS, "strange")
    assert await queues.set_aside_job(scene.scripts, "strange")
    assert not await queues.set_aside_job(scene.scripts, "strange")
    assert await scene.scripts.redis.lrange(keys.STRANGE_JOBS, 0, -1) == ["strange"]


@case("index_place")
async def _(scene: Scene) -> None:
    message = await scene.accept(due_ms=scene.clock.now_ms + 1000)
    await scene.connected()
    assert isinstance(await scene.route(message), queues.Scheduled)
    await message_index.add_to_statuses(scene.scripts, Place(message, "972500000009", "w1"))
    assert await scene.scripts.redis.exists(keys.later("972500000009")) == 0


@case("same_stream")
async def _(scene: Scene) -> None:
    await scene.connected()
    reply = await scene.scripts.run(changes.READ_CHANGES, *changes.call("0-0"))
    read = changes.read(reply)
    assert isinstance(read, changes.FleetChanges)
    assert list(read.sessions) == ["w1"]
    nothing = await scene.scripts.run(changes.READ_CHANGES, *changes.call(read.cursor))
    assert changes.read(nothing) == changes.FleetChanges(read.cursor, more=False, sessions=[], phones=[])
    await scene.scripts.redis.delete(keys.EVENTS)
    await scene.scripts.redis.xadd(keys.EVENTS, {"type": "session.created", "session": "w2"}, id="1-1")
    assert (
        changes.read(await scene.scripts.run(changes.READ_CHANGES, *changes.call(read.cursor))) == changes.StreamLost()
    )
