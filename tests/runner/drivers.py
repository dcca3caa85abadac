"""The drivers under test, each over a worker that is a few lines of shell."""

import contextlib
import hashlib
import os
import random
import shutil
import socket
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_network
from pathlib import Path

import pytest
from aiodocker import Docker
from aiodocker.exceptions import DockerError

from tests.runner import swarm_nodes
from tests.runner.cluster import own as own_cluster
from tests.runner.cluster import server as standin
from tests.runner.faulty_runner import FaultyRunner
from tests.runner.images import empty_directories, imported
from tests.waiting import until
from wa_orchestrator.runner.container_spec import LABEL_HOME, ContainerSpec
from wa_orchestrator.runner.contract import Exited, Runner, WorkerSpec
from wa_orchestrator.runner.docker import DockerRunner
from wa_orchestrator.runner.docker_relays import LABEL_RELAY_HOME
from wa_orchestrator.runner.kubernetes import api as kubernetes_api
from wa_orchestrator.runner.kubernetes import driver as kubernetes_driver
from wa_orchestrator.runner.kubernetes.access import ClusterAccess, find_access
from wa_orchestrator.runner.kubernetes.driver import KubernetesRunner
from wa_orchestrator.runner.process import ProcessRunner
from wa_orchestrator.runner.remote.client import RemoteRunner
from wa_orchestrator.runner.remote.server import ENVIRONMENT_NAMES, AllowedFiles, RunnerServer
from wa_orchestrator.runner.swarm.driver import SwarmRunner

#: Container names are the engine's, and test processes share one engine.
SESSION = f"s-{uuid.uuid4().hex[:8]}"
#: Says that it runs and what it was given; ends when asked, unless it is stubborn, and by itself with 7.
WORKER = """
cat "$WORKER_TOKEN_FILE" > "$AUTH_DIR/token"
if [ -n "$STUBBORN" ]; then trap "" TERM; else trap "exit 0" TERM; fi
echo "$EPOCH" > "$AUTH_DIR/ready"
while [ ! -e "$AUTH_DIR/end" ]; do sleep 0.05; done
exit 7
"""
COMMAND = ("/bin/sh", "-c", WORKER)
#: The same where the worker's directory is its own, and nobody sees it.
LONELY_COMMAND = ("/bin/sh", "-c", f'mkdir -p "$AUTH_DIR"; {WORKER}')


def talking_command(talk: str | Path) -> tuple[str, ...]:
    """The same where the worker's directory is its own: it speaks through another one, of its session in `talk`."""
    return ("/bin/sh", "-c", f'AUTH_DIR="{talk}/$SESSION_ID"; mkdir -p "$AUTH_DIR"; {WORKER}')


def spec(home: Path, session_id: str = SESSION, epoch: int = 1, **environment: str) -> WorkerSpec:
    """A spec for that worker."""
    secrets = {"WORKER_TOKEN": "canary-token-5f3a9c"}
    return WorkerSpec(session_id, epoch, home / "sessions" / session_id, environment, secrets)


def ready(one: WorkerSpec) -> bool:
    """Whether the worker has said that it runs."""
    with contextlib.suppress(FileNotFoundError):
        return (one.auth_dir / "ready").read_text().strip() == str(one.epoch)
    return False


async def is_ready(one: WorkerSpec) -> None:
    """Wait until the worker has said that it runs."""
    await until(lambda: ready(one), f"{one.session_id} is ready")


async def end_of(runner: Runner, handle: str, one: WorkerSpec) -> Exited:
    """Let a worker end by itself, and wait until it has. Not before: who ends at once may not have started."""
    one.auth_dir.mkdir(parents=True, exist_ok=True)  # where the worker's own is elsewhere
    (one.auth_dir / "end").touch()

    async def ended() -> Exited | None:
        state = await runner.poll(handle)
        return state if isinstance(state, Exited) else None

    return await until(ended, f"{handle} has ended")


def secret_files(home: Path) -> list[Path]:
    """The files with secrets under a directory."""
    return [path for path in home.rglob("*") if path.is_file() and "secrets" in path.parts]


def facts(handle: str, *names: str) -> bytes:
    """What the kernel shows of a process."""
    return b"".join(Path(f"/proc/{handle.split('/')[2]}/{name}").read_bytes() for name in names)


def docker_or_skip() -> None:
    """Skip without an engine on a developer's machine; with CI=true that is a failure."""
    with socket.socket(socket.AF_UNIX) as probe:
        missing = "no Docker engine answers here" if probe.connect_ex("/var/run/docker.sock") else None
    if missing and os.environ.get("CI") == "true":
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)


def free_subnet() -> str:
    """Addresses to which no interface of this machine leads, also none that a killed engine has left behind."""
    routes = [line.split() for line in Path("/proc/net/route").read_text().splitlines()[1:]]
    taken = [
        ip_network((_address(target), _address(mask).bit_count())) for _, target, _, _, _, _, _, mask, *_ in routes
    ]
    while True:
        chosen = ip_network(f"10.{random.randrange(256)}.{random.randrange(256)}.0/24")
        if not any(each.prefixlen and chosen.overlaps(each) for each in taken):
            return str(chosen)


def _address(spelled: str) -> int:
    """An address as the kernel's table of routes has it."""
    return int.from_bytes(bytes.fromhex(spelled), sys.byteorder)


async def end_all(docker: Docker, home: Path) -> None:
    """Remove every container of an installation, relays and ended ones too."""
    for label in (LABEL_HOME, LABEL_RELAY_HOME):
        for each in await docker.containers.list(all=True, filters={"label": [f"{label}={home}"]}):
            await each.delete(force=True, v=True)


async def address_outside(docker: Docker) -> str:
    """This machine's own address on the engine's ordinary network."""
    pool = (await (await docker.networks.get("bridge")).show())["IPAM"]["Config"][0]
    return str(pool.get("Gateway") or ip_network(pool["Subnet"])[1])


@asynccontextmanager
async def own_network(docker: Docker) -> AsyncIterator[str]:
    """A name for a network, which is gone afterwards if it was made."""
    name = f"wa-test-{uuid.uuid4().hex[:12]}"
    try:
        yield name
    finally:
        with contextlib.suppress(DockerError):
            await (await docker.networks.get(name)).delete()


def swarm_runner(docker: Docker, home: Path, image: str) -> SwarmRunner:
    """A driver whose workers speak through the directories of their sessions on this machine."""
    talk = home / "sessions"
    talk.mkdir(parents=True, exist_ok=True)
    talk.chmod(0o777)
    mounts = ("/usr:/usr:ro", f"{talk}:/talk")
    box = ContainerSpec(image, 64, 32, outside="wa_outside", command=talking_command("/talk"), binds=mounts)
    return SwarmRunner(docker, str(home), box)


def cluster_of(home: Path) -> str:
    """The name of an installation in the cluster that all tests share."""
    return "t" + hashlib.sha256(str(home).encode()).hexdigest()[:12]


@asynccontextmanager
async def kubernetes_runner(
    home: Path,
    cluster: str,
    image: str = "wa-orchestrator:latest",
    token_file: Path | None = None,
    command: Sequence[str] = (),
) -> AsyncIterator[KubernetesRunner]:
    """A driver for the stand-in of a cluster, whose workers are processes of this machine."""
    box = ContainerSpec(image, 64, command=tuple(command) or talking_command(home / "sessions"))
    access = ClusterAccess(standin.only().url, "default", token_file=token_file, static_token=standin.TOKEN)
    async with kubernetes_api.opened(access) as api, kubernetes_driver.opened(api, cluster, box) as runner:
        yield runner


@asynccontextmanager
async def driver(kind: str, home: Path) -> AsyncIterator[Runner]:
    """Open a driver; everything it started is ended afterwards."""
    async with _opened(kind, home) as made:
        try:
            yield made
        finally:
            if isinstance(made, FaultyRunner):
                made.faults.clear()
            for found in await made.survey():
                await made.stop(found.handle, 0)


@asynccontextmanager
async def _opened(kind: str, home: Path) -> AsyncIterator[Runner]:
    match kind:
        case "process":
            yield ProcessRunner(home / "workers", COMMAND)
        case "misbehaving":
            yield FaultyRunner(ProcessRunner(home / "workers", COMMAND))
        case "remote":
            allowed = AllowedFiles(home / "sessions", home / "simulator", {*ENVIRONMENT_NAMES, "STUBBORN"})
            socket_path = Path(tempfile.mkdtemp()) / "runner.sock"  # short: the kernel takes 107 characters
            async with RunnerServer(ProcessRunner(home / "workers", COMMAND), allowed).serving(socket_path):
                yield RemoteRunner(socket_path)
            shutil.rmtree(socket_path.parent)
        case "swarm":
            node, image = swarm_nodes.only()
            async with Docker(url=node.url) as docker:
                yield swarm_runner(docker, home, image)
        case "kubernetes" if kubeconfig := own_cluster.chosen():
            access, cluster = find_access(kubeconfig, None), cluster_of(home)
            box = ContainerSpec(own_cluster.IMAGE, 64, command=LONELY_COMMAND)
            async with (
                kubernetes_api.opened(access) as api,
                kubernetes_driver.opened(api, cluster, box) as runner,
                own_cluster.carried(runner, cluster, home / "sessions"),
            ):
                yield runner
        case "kubernetes":
            async with kubernetes_runner(home, cluster_of(home)) as runner:
                yield runner
        case "docker":
            docker_or_skip()
            async with (
                Docker() as docker,
                imported(docker, empty_directories()) as image,
                own_network(docker) as network,
            ):
                mounts, subnet = ("/usr:/usr:ro",), free_subnet()
                box = ContainerSpec(image, 64, 32, network=network, subnet=subnet, command=COMMAND, binds=mounts)
                try:
                    yield DockerRunner(docker, home / "workers", box)
                finally:
                    await end_all(docker, home / "workers")
