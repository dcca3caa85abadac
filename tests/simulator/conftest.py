"""A simulated WhatsApp for tests with a protocol client."""

from collections.abc import AsyncIterator

import pytest

from tests.simulator.wireclient import World


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World() as running:
        yield running
