"""What acceptance says about a message's place."""

from tests.conftest import Clock
from tests.store.scene import Scene
from wa_orchestrator.store import accepting
from wa_orchestrator.store.scripts import Scripts


async def test_only_messages_of_the_same_or_a_higher_priority_are_ahead(held: Scripts, clock: Clock) -> None:
    scene = Scene(held, clock)
    await scene.connected()
    for priority in (1, 2, 2, 3):
        await scene.queued(priority=priority)
    ahead = {
        priority: await accepting.accept(held, scene.message(priority=priority), scene.room()) for priority in (1, 2, 3)
    }
    # Those accepted here wait to be routed and count for one another, whatever their priority.
    assert [each.ahead for each in ahead.values() if isinstance(each, accepting.Accepted)] == [1, 4, 6]
