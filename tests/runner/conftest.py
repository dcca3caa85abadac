"""Fixtures of the drivers' tests."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.runner import swarm_nodes
from tests.runner.cluster import server
from tests.runner.images import empty_directories


@pytest.fixture(scope="session")
def swarm_node() -> Iterator[swarm_nodes.Node]:
    """A swarm of one node for all tests of this process: an engine of its own, which no other test knows."""
    with swarm_nodes.engines(1) as nodes:
        with ThreadPoolExecutor(1) as pool:  # the test's own loop may be running
            image = pool.submit(asyncio.run, swarm_nodes.join(nodes, empty_directories())).result()
        swarm_nodes.use(nodes[0], image)
        yield nodes[0]


@pytest.fixture(scope="session")
def cluster() -> Iterator[server.Running]:
    """The stand-in of a Kubernetes cluster for all tests of this process."""
    with server.served() as running:
        yield running
