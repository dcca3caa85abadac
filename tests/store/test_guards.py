"""Each guard of the scripts holds, and its case fails when it is removed."""

import pytest
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from tests.conftest import HELD_CLOCK, Clock
from tests.store import (  # noqa: F401 (each adds its cases)
    guards_access,
    guards_archive,
    guards_campaigns,
    guards_changes,
    guards_clock,
    guards_contacts,
    guards_conversations,
    guards_credentials,
    guards_events,
    guards_gateway,
    guards_health,
    guards_holds,
    guards_restore,
    guards_tag_limits,
    guards_workers,
    guards_write,
)
from tests.store.guards import CASES
from tests.store.mutants import Mutant, mutants
from tests.store.scene import Scene
from wa_orchestrator.errors import Broken
from wa_orchestrator.store.engine.scripts import FILES, Scripts

MUTANTS = list(mutants())


def test_every_script_has_a_folder_and_a_name_of_its_own() -> None:
    lua = FILES["_clock"].parents[1]
    assert sorted(FILES.values()) == sorted(lua.rglob("*.lua"))
    assert {path.parents[1] for path in FILES.values()} == {lua}


@pytest.mark.parametrize("guard", CASES)
async def test_the_guard_holds(guard: str, held: Scripts, clock: Clock) -> None:
    await CASES[guard](Scene(held, clock))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.guard)
async def test_without_the_guard_its_case_fails(mutant: Mutant, redis: Redis, clock: Clock) -> None:
    assert mutant.line != mutant.without
    mutated = Scripts(redis, clock=HELD_CLOCK, sources=mutant.sources())
    with pytest.raises((AssertionError, ResponseError, Broken)):
        await CASES[mutant.guard](Scene(mutated, clock))


def test_every_guard_has_a_case_and_every_case_a_guard() -> None:
    assert sorted(mutant.guard for mutant in MUTANTS) == sorted(CASES)
