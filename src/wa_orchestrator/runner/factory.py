"""Creates the driver that `RUNNER` selects."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from wa_orchestrator.errors import BadSettings
from wa_orchestrator.runner.contract import Runner
from wa_orchestrator.runner.node_command import worker_command
from wa_orchestrator.runner.process import ProcessRunner
from wa_orchestrator.settings import Settings

HOME = "workers"


@asynccontextmanager
async def runner_for(settings: Settings) -> AsyncIterator[Runner]:
    """Open the driver. Workers keep running when it is closed."""
    home = settings.data_dir / HOME
    match settings.runner:
        case "process":
            yield ProcessRunner(home, worker_command(settings.worker_bundle, settings.worker_memory_mb))
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
