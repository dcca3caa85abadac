"""What acceptance says about a message's place, and that neighbours in one call are apart."""

from tests.conftest import Clock
from tests.store.scene import Scene
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import admission


async def test_only_messages_of_the_same_or_a_higher_priority_are_ahead(held: Scripts, clock: Clock) -> None:
    scene = Scene(held, clock)
    await scene.connected()
    for priority in (1, 2, 2, 3):
        await scene.queued(priority=priority)
    ahead = {
        priority: await admission.accept(held, scene.message(priority=priority), scene.room()) for priority in (1, 2, 3)
    }
    # Those accepted here wait to be routed and count for one another, whatever their priority.
    assert [each.ahead for each in ahead.values() if isinstance(each, admission.Accepted)] == [1, 4, 6]


async def test_one_that_stumbles_is_not_in_and_takes_no_neighbour_along(held: Scripts, clock: Clock) -> None:
    scene = Scene(held, clock)
    await held.redis.set(keys.pace("97259"), "somebody has damaged it")
    three = [scene.message(), scene.message(phone="97259"), scene.message()]
    wanted = [admission.wanted(each, scene.room(), None) for each in three]
    replies = await held.run("admit_messages", *admission.admit_call(admission.UNCOUNTED, wanted))
    outcomes = [admission.read_admission(reply) for reply in replies]
    assert [type(each) for each in outcomes] == [admission.Accepted, admission.Errored, admission.Accepted]
    assert await held.redis.lrange(keys.GATEWAY_JOBS, 0, -1) == [three[0].id, three[2].id]
    assert await held.redis.hgetall(keys.COUNTS) == {"accepted": "2", "queued": "2"}
    assert not await held.redis.exists(keys.message(three[1].id))
