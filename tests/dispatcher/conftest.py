"""Sessions and a held clock for every test of the dispatcher."""

import pytest

from tests.conftest import Clock
from tests.dispatcher.stage import NOON, Stage, settings
from wa_orchestrator.store.engine.scripts import Scripts


@pytest.fixture
async def stage(held: Scripts, clock: Clock) -> Stage:
    """An empty store at midday."""
    await clock.set(NOON)
    return Stage(held, settings())
