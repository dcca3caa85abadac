"""Creates the driver that `RUNNER` selects."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from wa_orchestrator.errors import BadSettings
from wa_orchestrator.runner.confinement import launch, layers
from wa_orchestrator.runner.confinement.layers import Layers
from wa_orchestrator.runner.contract import Runner
from wa_orchestrator.runner.node_command import worker_command
from wa_orchestrator.runner.process import ProcessRunner
from wa_orchestrator.settings import Settings

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
            from aiodocker import Docker

            from wa_orchestrator.runner.container_spec import ContainerSpec
            from wa_orchestrator.runner.docker import DockerRunner

            if settings.allow_direct:
                raise BadSettings(
                    "ALLOW_DIRECT: with RUNNER=docker workers reach nothing but proxies. Example: ALLOW_DIRECT=false"
                )
            async with Docker() as docker:
                spec = ContainerSpec(settings.docker_image, settings.worker_memory_mb, network=settings.docker_network)
                yield DockerRunner(docker, home, spec)
