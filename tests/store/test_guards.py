"""Each guard of the scripts holds, and is missed when it is gone."""

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.conftest import HELD_CLOCK, Clock
from tests.store import guards_contacts, guards_gateway, guards_holds  # noqa: F401 (each adds its stories)
from tests.store.guards import STORIES
from tests.store.mutants import Mutant, mutants
from tests.store.scene import Scene
from wa_orchestrator.errors import Broken
from wa_orchestrator.store.engine.scripts import Scripts

MUTANTS = list(mutants())


@pytest.mark.parametrize("guard", STORIES)
async def test_the_guard_holds(guard: str, held: Scripts, clock: Clock) -> None:
    await STORIES[guard](Scene(held, clock))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.guard)
async def test_without_the_guard_its_story_turns_false(mutant: Mutant, redis: Redis, clock: Clock) -> None:
    assert mutant.line != mutant.without
    maimed = Scripts(redis, clock=HELD_CLOCK, sources=mutant.sources())
    with pytest.raises((AssertionError, ResponseError, Broken)):
        await STORIES[mutant.guard](Scene(maimed, clock))


def test_every_guard_has_a_story_and_every_story_a_guard() -> None:
    assert sorted(mutant.guard for mutant in MUTANTS) == sorted(STORIES)
