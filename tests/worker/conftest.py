"""One simulated world, one server and one linked session for all tests of this room; a test that breaks things makes its own session."""

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.worker import harness
from tests.worker.harness import Rig, Session
from wa_orchestrator.simulator.world import World


@pytest.fixture(scope="session", autouse=True)
def _built() -> None:
    if not harness.BUNDLE.exists():
        reason = "the worker's bundle is not built; run `make worker`"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    directory = tmp_path_factory.mktemp("workers")
    async with World(proxies=3) as world, harness.rig(world, directory) as running:
        yield running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def _shared_session(shared_rig: Rig) -> Session:
    session = shared_rig.session(PING_INTERVAL_MS="300")
    await session.link()
    shared_rig.kept.append(session.worker)
    return session


@pytest_asyncio.fixture(loop_scope="session")
async def rig(shared_rig: Rig) -> AsyncIterator[Rig]:
    """The world without faults; workers that the test started are gone afterwards."""
    yield shared_rig
    await shared_rig.calm()


@pytest.fixture
def linked(rig: Rig, _shared_session: Session) -> Session:
    """A session that is linked and connected, and shared: nothing may be done to it that others would notice."""
    return _shared_session
