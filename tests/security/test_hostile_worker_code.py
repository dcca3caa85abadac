"""Hostile code as a worker, under each runner: what it reaches is a table, and SECURITY.md has the same."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from aiodocker import Docker

from tests.runner.drivers import address_outside, docker_or_skip, end_all, free_subnet, own_network
from tests.runner.images import imported, packed_worker
from tests.runner.neighbour import neighbour
from tests.security import reached_table
from tests.security.hostile_fleet import PROGRAM, attack, neighbourhood, run, server_of
from tests.security.reached_table import OWN
from wa_orchestrator.runner.confinement import landlock, syscall_filter
from wa_orchestrator.runner.container_spec import ContainerSpec
from wa_orchestrator.runner.docker import DockerRunner
from wa_orchestrator.runner.docker_relays import PORT as RELAY_PORT

ROOT = Path(__file__).resolve().parents[2]
#: Landlock knows ports and not addresses; the filter of addresses needs root.
SAME_PORT = "the same TCP port of another machine"
EXISTENCE = "whether a file exists, if its path is known"
#: What each runner cannot forbid. Column of the table in SECURITY.md, and the rows that say "yes" besides its own.
STILL_REACHED: dict[str, set[str]] = {
    "process, server is root": set(),
    "process, server is not root": {SAME_PORT, EXISTENCE},
    "docker": {"a port to listen on", "new processes"},
}


def require(condition: bool, reason: str) -> None:
    if not condition:
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)


def current_kernel() -> None:
    if landlock.version() < landlock.SCOPES_SINCE or not syscall_filter.is_known():
        pytest.skip("this kernel is older than the table: Landlock 6 and x86-64 or ARM64 are needed")


def told(column: str, reached: Mapping[str, bool]) -> None:
    """Compare a column with what is promised and with the page; `make reached` writes it there first."""
    if os.environ.get("WRITE_REACHED"):
        reached_table.write(column, reached)
    assert {what for what, yes in reached.items() if yes} == OWN | STILL_REACHED[column]
    assert {what: row[column] for what, row in reached_table.read().items()} == reached, "the page is old: make reached"


def test_the_page_has_the_table_as_it_is_written() -> None:
    page = reached_table.PAGE.read_text("utf-8")
    assert reached_table.text(reached_table.read()) in page


async def test_as_root_a_hostile_worker_reaches_its_own_and_nothing_else(tmp_path: Path) -> None:
    require(os.geteuid() == 0, "users of their own need root")
    current_kernel()
    result = await run(tmp_path)
    assert result["layers"] == [True, landlock.version(), True, True]
    told("process, server is root", result["reached"])


def as_ordinary_user(*options: str) -> dict[str, Any]:
    """Run the attack in a process of its own, without root's rights."""
    become = ("tests.security.ordinary_user",) if os.geteuid() == 0 else ()
    with tempfile.TemporaryDirectory(prefix="wa-hostile-") as home:  # pytest's own are closed to other users
        command = (sys.executable, "-m", *become, "tests.security.hostile_fleet", home, *options)
        done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


async def test_as_an_ordinary_user_a_hostile_worker_reaches_its_own_and_nothing_else() -> None:
    current_kernel()
    result = await asyncio.to_thread(as_ordinary_user)
    assert result["layers"] == [False, landlock.version(), True, False, "NOT_ROOT"]
    told("process, server is not root", result["reached"])


async def test_without_any_layer_the_same_code_reaches_nearly_everything() -> None:
    """The attacks are real: each that is refused above succeeds where nothing refuses it."""
    result = await asyncio.to_thread(as_ordinary_user, "bare")
    refused = {what for what, yes in result["reached"].items() if not yes}
    assert refused == {"Redis, without its password", "the code that other workers run"}


@pytest.mark.docker
async def test_in_a_container_a_hostile_worker_reaches_its_own_and_nothing_else(tmp_path: Path) -> None:
    docker_or_skip()
    async with Docker() as docker, imported(docker, packed_worker()) as image, own_network(docker) as network:
        subnet = ip_network(free_subnet())
        binds, command = (f"{PROGRAM}:/app/hostile.cjs:ro",), ("node", "/app/hostile.cjs")
        box = ContainerSpec(image, 192, 32, network=network, subnet=str(subnet), command=command, binds=binds)
        runner = DockerRunner(docker, tmp_path / "data" / "workers", box)
        with neighbour(tmp_path) as machine:
            elsewhere, host = (machine, RELAY_PORT), await address_outside(docker)
            async with server_of(tmp_path) as targets, neighbourhood(tmp_path, host, elsewhere) as around:
                # Where the host would be in the workers' network, and where it is in the relays'.
                hosts = {"hosts": [host, str(subnet[1])]}
                try:
                    reached = await attack(tmp_path, runner, around, targets | hosts)
                finally:
                    await end_all(docker, tmp_path / "data" / "workers")
    told("docker", reached)
