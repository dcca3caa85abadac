"""Sessions and a held clock for every test of the dispatcher."""

import pytest

from tests.conftest import Clock
from tests.dispatcher.scenario import NOON, Scenario, settings
from wa_orchestrator.store.engine.scripts import Scripts


@pytest.fixture
async def scenario(held: Scripts, clock: Clock) -> Scenario:
    """An empty store at midday."""
    await clock.set(NOON)
    return Scenario(held, settings())
