"""Creates the driver that `RUNNER` selects."""

import asyncio
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

HOME = "workers"

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
            )
            for gap in found.gaps:
                log.warning("runner.confinement_gap", code=gap)  # `doctor` has the sentence
            for detail in found.details:
                log.warning("runner.layer_refused", error=detail)
            yield ProcessRunner(home, command, found, settings.worker_users)
        case "docker":
            async with docker_runner(settings) as runner:
                yield runner
        case "remote":
            yield RemoteRunner(settings.runner_socket)


@asynccontextmanager
async def docker_runner(settings: Settings) -> "AsyncIterator[DockerRunner]":
    """Open the driver of containers. In a container itself, it starts workers from its own image."""
    from aiodocker import Docker
    from aiodocker.exceptions import DockerError

    from wa_orchestrator.runner.container_spec import ContainerSpec
    from wa_orchestrator.runner.docker import DockerRunner
    from wa_orchestrator.runner.own_container import find_own_container

    if settings.allow_direct:
        raise BadSettings("ALLOW_DIRECT: workers in containers reach nothing but proxies. Example: ALLOW_DIRECT=false")
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
