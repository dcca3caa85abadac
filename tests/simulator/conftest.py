"""A simulated WhatsApp for tests that speak to it on the wire."""

from collections.abc import AsyncIterator

import pytest

from tests.simulator.wireclient import World


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World() as running:
        yield running
