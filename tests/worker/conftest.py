"""One simulated world for all tests of this room; every test has phones, sessions and a server of its own."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.worker import harness
from tests.worker.harness import Rig
from wa_orchestrator.simulator.world import World


@pytest.fixture(scope="session", autouse=True)
def _built() -> None:
    if not harness.BUNDLE.exists():
        reason = "the worker's bundle is not built; run `make worker`"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def world() -> AsyncIterator[World]:
    async with World(proxies=2) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def rig(world: World, tmp_path: Path) -> AsyncIterator[Rig]:
    async with harness.rig(world, tmp_path) as running:
        yield running
