"""One simulator for all tests of this room; every test uses phones of its own."""

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.simulator.e2e import harness
from tests.simulator.e2e.harness import Outside


@pytest.fixture(scope="session", autouse=True)
def _installed() -> None:
    if not harness.BAILEYS.exists():
        reason = "Baileys is not installed; run `make setup`"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def world() -> AsyncIterator[Outside]:
    async with harness.outside() as running:
        yield running
        asked = [entry for proxy in await running.get("/proxies") for entry in proxy["connections"] if "host" in entry]
        assert asked
        assert {entry["addressType"] for entry in asked} == {"domain"}, "a client looked a name up by itself"


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def _calm(world: Outside) -> AsyncIterator[None]:
    yield
    await world.calm()
