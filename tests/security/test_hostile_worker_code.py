"""Hostile code as a worker, under each runner: what it reaches is a table, and SECURITY.md has the same."""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from aiodocker import Docker

from tests.runner.drivers import docker_or_skip, end_all, free_subnet, own_network
from tests.runner.images import imported, packed_worker
from tests.runner.neighbour import neighbour
from tests.security.hostile_fleet import PROGRAM, attack, neighbourhood, run, server_of
from wa_orchestrator.runner.confinement import landlock, syscall_filter
from wa_orchestrator.runner.container_spec import ContainerSpec
from wa_orchestrator.runner.docker import DockerRunner
from wa_orchestrator.runner.docker_relays import PORT as RELAY_PORT

ROOT = Path(__file__).resolve().parents[2]
OWN = {"its own directory", "its own token", "its proxy", "the server's routes for workers"}
#: Landlock knows ports and not addresses.
SAME_PORT = "the same TCP port of another machine"
EXISTENCE = "whether a file exists, if its path is known"
#: What each runner cannot forbid. Column of the table in SECURITY.md, and the rows that say "yes" besides its own.
STILL_REACHED = {
    "process, server is root": {SAME_PORT},
    "process, server is not root": {SAME_PORT, EXISTENCE},
    "docker": {"another TCP port of the machine", "UDP", "a port to listen on", "new processes"},
}


def require(condition: bool, reason: str) -> None:
    if not condition:
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)


def current_kernel() -> None:
    if landlock.version() < landlock.SCOPES_SINCE or not syscall_filter.is_known():
        pytest.skip("this kernel is older than the table: Landlock 6 and x86-64 or ARM64 are needed")


def told(column: str, reached: Mapping[str, bool]) -> None:
    """Print the column, and compare it with what is promised."""
    print(f"\n{column}\n" + "\n".join(f"  {'yes' if yes else 'no ':4} {what}" for what, yes in reached.items()))
    assert {what for what, yes in reached.items() if yes} == OWN | STILL_REACHED[column]
    written = table()
    assert {what: row[column] for what, row in written.items()} == {
        what: "yes" if yes else "no" for what, yes in reached.items()
    }


def table() -> dict[str, dict[str, str]]:
    """The table in SECURITY.md, by row and column."""
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (ROOT / "SECURITY.md").read_text("utf-8").splitlines()
        if line.startswith("|")
    ]
    head = next(cells for cells in lines if cells[0] == "code in a worker reaches")
    rows = [cells for cells in lines if len(cells) == len(head) and re.fullmatch(r"\**(yes|no)\**", cells[1])]
    return {cells[0]: dict(zip(head[1:], (cell.strip("*") for cell in cells[1:]), strict=True)) for cells in rows}


async def test_as_root_a_hostile_worker_reaches_its_own_and_nothing_else(tmp_path: Path) -> None:
    require(os.geteuid() == 0, "users of their own need root")
    current_kernel()
    result = await run(tmp_path)
    assert result["layers"] == [True, landlock.version(), True]
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
    assert result["layers"] == [False, landlock.version(), True, "NOT_ROOT"]
    told("process, server is not root", result["reached"])


async def test_without_any_layer_the_same_code_reaches_nearly_everything() -> None:
    """The attacks are real: each that is refused above succeeds where nothing refuses it."""
    result = await asyncio.to_thread(as_ordinary_user, "bare")
    refused = {what for what, yes in result["reached"].items() if not yes}
    assert refused == {"Redis, without its password", "the code that other workers run"}


@pytest.mark.docker
async def test_in_a_container_a_hostile_worker_reaches_no_file_process_or_secret(tmp_path: Path) -> None:
    docker_or_skip()
    async with Docker() as docker, imported(docker, packed_worker()) as image, own_network(docker) as network:
        subnet = ip_network(free_subnet())
        pool = {"Config": [{"Subnet": str(subnet), "Gateway": str(subnet[1])}]}
        await docker.networks.create({"Name": network, "Driver": "bridge", "Internal": True, "IPAM": pool})
        binds = (f"{PROGRAM}:/app/hostile.cjs:ro",)
        box = ContainerSpec(image, 192, 32, network=network, command=("node", "/app/hostile.cjs"), binds=binds)
        runner = DockerRunner(docker, tmp_path / "data" / "workers", box)
        with neighbour(tmp_path) as machine:
            elsewhere = (machine, RELAY_PORT)
            async with (
                server_of(tmp_path) as targets,
                neighbourhood(tmp_path, str(subnet[1]), elsewhere) as around,
            ):
                try:
                    reached = await attack(tmp_path, runner, around, targets)
                finally:
                    await end_all(docker, tmp_path / "data" / "workers")
    told("docker", reached)
