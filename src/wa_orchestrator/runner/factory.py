"""Creates the driver that `RUNNER` selects."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from wa_orchestrator.errors import BadSettings, Unavailable
from wa_orchestrator.runner.confinement import launch, layers
from wa_orchestrator.runner.confinement.layers import Layers
from wa_orchestrator.runner.contract import Runner
from wa_orchestrator.runner.node_command import IMAGE_COMMAND, worker_command
from wa_orchestrator.runner.process import ProcessRunner
from wa_orchestrator.runner.remote.client import RemoteRunner
from wa_orchestrator.settings import Settings

if TYPE_CHECKING:
    from wa_orchestrator.runner.docker import DockerRunner
    from wa_orchestrator.runner.kubernetes.driver import KubernetesRunner
    from wa_orchestrator.runner.swarm.driver import SwarmRunner

HOME = "workers"
_OVERLAY_OUTSIDE = "wa_outside"

log = structlog.get_logger(__name__)


def find_layers(settings: Settings, node: str) -> Layers:
    """Return how workers that are processes are confined on this machine."""
    users = settings.worker_users
    return layers.find(lambda tried: launch.attempt(tried, (node, "-e", "0"), users[0]), users)


def separates_files(runner: Runner) -> bool:
    """Whether a worker of this runner cannot read what belongs to others. Containers always separate them."""
    return runner.separates_files if isinstance(runner, ProcessRunner) else True


@asynccontextmanager
async def runner_for(settings: Settings) -> AsyncIterator[Runner]:
    """Open the driver. Workers keep running when it is closed."""
    home = settings.data_dir / HOME
    match settings.runner:
        case "process":
            command = worker_command(settings.worker_bundle, settings.worker_memory_mb)
            found = await asyncio.to_thread(find_layers, settings, command[0])
            log.info(
                "runner.confinement",
                own_users=found.own_users,
                landlock=found.landlock,
                syscall_filter=found.syscall_filter,
                addresses=bool(found.control_group),
            )
            for gap in found.gaps:
                log.warning("runner.confinement_gap", code=gap)  # `doctor` has the sentence
            for detail in found.details:
                log.warning("runner.layer_refused", error=detail)
            launch.remove_left_groups(found, time.time())
            yield ProcessRunner(home, command, found, settings.worker_users)
        case "docker":
            async with docker_runner(settings) as runner:
                yield runner
        case "remote":
            yield RemoteRunner(settings.runner_socket)
        case "swarm":
            async with swarm_runner(settings) as swarm:
                yield swarm
        case "kubernetes":
            async with kubernetes_runner(settings) as pods:
                yield pods


@asynccontextmanager
async def docker_runner(settings: Settings) -> "AsyncIterator[DockerRunner]":
    """Open the driver of containers. In a container itself, it starts workers from its own image."""
    from aiodocker import Docker
    from aiodocker.exceptions import DockerError

    from wa_orchestrator.runner.container_spec import ContainerSpec
    from wa_orchestrator.runner.docker import DockerRunner
    from wa_orchestrator.runner.own_container import find_own_container

    _refuse_direct(settings)
    async with Docker() as docker:
        try:
            own = await find_own_container(docker)
        except (DockerError, OSError) as error:
            raise Unavailable("DOCKER_UNAVAILABLE", f"The Docker engine does not respond: {error}") from error
        spec = ContainerSpec(
            own.image if own else settings.docker_image,
            settings.worker_memory_mb,
            network=settings.docker_network,
            outside=settings.docker_outside,
            command=IMAGE_COMMAND,
        )
        yield DockerRunner(docker, settings.data_dir / HOME, spec, own.on_host if own else Path.absolute)


@asynccontextmanager
async def swarm_runner(settings: Settings) -> "AsyncIterator[SwarmRunner]":
    """Open the driver of services. The engine must be a manager of its swarm."""
    from aiodocker import Docker

    from wa_orchestrator.runner.container_spec import ContainerSpec
    from wa_orchestrator.runner.swarm.driver import SwarmRunner

    _refuse_direct(settings)
    _require_credentials_that_follow(settings)
    spec = ContainerSpec(
        settings.docker_image,
        settings.worker_memory_mb,
        network=settings.docker_network,
        outside=_OVERLAY_OUTSIDE if settings.docker_outside == "bridge" else settings.docker_outside,
        command=IMAGE_COMMAND,
    )
    async with Docker() as docker:
        runner = SwarmRunner(docker, settings.cluster_name, spec, settings.swarm_constraints)
        await runner.survey()  # an engine that does not answer, or is not a manager, fails the start
        yield runner


@asynccontextmanager
async def kubernetes_runner(settings: Settings) -> "AsyncIterator[KubernetesRunner]":
    """Open the driver of Pods."""
    from wa_orchestrator.runner.container_spec import ContainerSpec
    from wa_orchestrator.runner.kubernetes import api, driver
    from wa_orchestrator.runner.kubernetes.access import find_access

    _refuse_direct(settings)
    _require_credentials_that_follow(settings)
    spec = ContainerSpec(settings.docker_image, settings.worker_memory_mb, command=IMAGE_COMMAND)
    access = find_access(settings.kubernetes_config, settings.kubernetes_namespace)
    async with api.opened(access) as client, driver.opened(client, settings.cluster_name, spec) as runner:
        yield runner


def _refuse_direct(settings: Settings) -> None:
    if settings.allow_direct:
        raise BadSettings("ALLOW_DIRECT: workers in containers reach nothing but proxies. Example: ALLOW_DIRECT=false")


def _require_credentials_that_follow(settings: Settings) -> None:
    """Refuse to run workers whose directory ends with them unless their credentials are kept by the server."""
    if settings.credentials != "server":
        raise BadSettings(
            f"RUNNER: with '{settings.runner}' workers have no disk: the server must keep credentials, or every "
            "restart would need a scan. Example: CREDENTIALS=server"
        )
