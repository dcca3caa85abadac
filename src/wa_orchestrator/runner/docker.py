"""Docker driver: each worker is a container `wa_session_<id>`, found again by its labels.

Directories and secrets are bind mounts, which the engine resolves on its own machine. A driver that runs in a container
itself must translate its paths (`own_container.py`).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import structlog
from aiodocker import Docker
from aiodocker.containers import DockerContainer
from aiodocker.exceptions import DockerError

from wa_orchestrator.domain.sessions.reconciliation import FoundWorker
from wa_orchestrator.runner.container_spec import (
    AUTH_DIR,
    LABEL_EPOCH,
    LABEL_HOME,
    LABEL_SESSION,
    NO_RESOLVER,
    NOT_COMPOSE,
    SECRETS_DIR,
    UNINHERITED,
    ContainerSpec,
    hardened,
    worker_variables,
)
from wa_orchestrator.runner.contract import AlreadyRunning, Exited, Lost, Running, StartFailed, WorkerSpec
from wa_orchestrator.runner.docker_errors import UNREACHABLE, engine_errors
from wa_orchestrator.runner.docker_relays import LABEL_RELAY, ProxyRelays, Relay, ensure_network, through
from wa_orchestrator.runner.shared_survey import SharedSurvey
from wa_orchestrator.runner.worker_files import hand_over, private_directory, write_secrets

NAME = "docker/1"
PREFIX = "wa_session_"
CA_DIR = "/run/ca"
_GONE = 404
_BUSY = 409
_NOT_RUNNING = 304

log = structlog.get_logger(__name__)


class DockerRunner:
    """Runs workers as containers of one installation, whose directory is `home`. See `contract.Runner`."""

    def __init__(
        self,
        docker: Docker,
        home: Path,
        container_spec: ContainerSpec,
        on_host: Callable[[Path], Path] = Path.absolute,
    ) -> None:
        """`on_host` returns where the engine finds a file of ours."""
        self._docker = docker
        self._home = home.absolute()
        self._on_host = on_host
        #: Names the installation: several may have the same path inside of their containers.
        self._label = on_host(self._home)
        self._container_spec = container_spec
        self._relays = ProxyRelays(docker, self._label, container_spec)
        self._polls = SharedSurvey(self.survey)

    async def start(self, spec: WorkerSpec) -> str:
        """Create and start the container. A dead container of the same name is removed first."""
        name = PREFIX + spec.session_id
        with engine_errors():
            try:
                await self._remove_dead(name, spec.session_id)
                subnets = await ensure_network(self._docker, self._container_spec)
                container = await self._create(spec, name, subnets)
            except DockerError as error:
                if error.status == UNREACHABLE:
                    raise
                raise StartFailed(f"Docker could not create {name}: {error.message}") from error
        try:
            await container.start()
        except (DockerError, OSError) as error:
            await self._delete(container)
            raise StartFailed(f"Docker could not start {name}: {error}") from error
        self._polls.forget()
        return f"{NAME}/{container.id}"

    async def _create(self, spec: WorkerSpec, name: str, subnets: Sequence[str]) -> DockerContainer:
        """Create the container. It is given the addresses of its relay in place of its proxy's and the server's."""
        async with self._relays.lock:
            relay = None
            if url := spec.secrets.get("PROXY_URL"):
                relay = await self._relays.ensure(url, spec.environment.get("WEBHOOK_URL", ""), subnets)
                spec = through(relay, spec)
            return await self._docker.containers.create(self._config(spec, relay), name=name)

    async def poll(self, handle: str) -> Running | Exited | Lost:
        """Look the container up in the engine's listing, which all polls of a second share."""
        return await self._polls.poll(handle)

    async def stop(self, handle: str, grace_s: float = 10.0) -> None:
        """Stop and remove the container. Its directories are mounts and remain."""
        name, _, container_id = handle.rpartition("/")
        if name != NAME:
            return
        container = self._docker.containers.container(container_id)
        if not await self._is_ours(container):
            return
        if grace_s > 0:
            with engine_errors(_GONE, _NOT_RUNNING):
                await container.stop(t=int(grace_s))
        await self._delete(container)
        try:
            await self._relays.drop_unused()
        except (DockerError, OSError) as error:
            log.warning("relays.not_removed", error=str(error))
        self._polls.forget()

    async def survey(self) -> Sequence[FoundWorker]:
        """Return the running containers with this installation's label, including paused ones."""
        filters = {"label": [f"{LABEL_HOME}={self._label}"], "status": ["running", "paused", "restarting"]}
        with engine_errors():
            containers = await self._docker.containers.list(filters=filters)
        return [_found(each._container) for each in containers]

    async def _is_ours(self, container: DockerContainer) -> bool:
        """Whether a container exists and is a worker of this installation: a handle may name any."""
        with engine_errors(_GONE):
            shown = await container.show()
            return bool(shown["Config"]["Labels"].get(LABEL_HOME) == str(self._label))
        return False

    async def _remove_dead(self, name: str, session_id: str) -> None:
        try:
            old = await self._docker.containers.get(name)
        except DockerError as error:
            if error.status == _GONE:
                return
            raise
        if old._container["State"]["Running"]:
            raise AlreadyRunning(session_id)
        await self._delete(old)

    async def _delete(self, container: DockerContainer) -> None:
        with engine_errors(_GONE, _BUSY):  # busy: another call is removing it
            await container.delete(force=True, v=True)
        with engine_errors(_GONE):
            while True:  # until it is gone
                await container.show()
                await asyncio.sleep(0.05)

    def _config(self, spec: WorkerSpec, relay: Relay | None) -> dict[str, Any]:
        shared = self._container_spec
        place = private_directory(self._home / spec.session_id)
        write_secrets(place / "secrets", spec.secrets)
        private_directory(spec.auth_dir)
        for tree in (place / "secrets", spec.auth_dir):
            hand_over(tree, shared.uid, shared.gid)
        environment = dict(spec.environment)
        mounted = {AUTH_DIR: (spec.auth_dir, "rw"), SECRETS_DIR: (place / "secrets", "ro")}
        if authorities := environment.get("NODE_EXTRA_CA_CERTS"):
            mounted[f"{CA_DIR}/ca.pem"] = (Path(authorities), "ro")
            environment["NODE_EXTRA_CA_CERTS"] = f"{CA_DIR}/ca.pem"
        variables = worker_variables(replace(spec, environment=environment), shared.memory_mb)
        labels = {
            LABEL_SESSION: spec.session_id,
            LABEL_EPOCH: str(spec.epoch),
            LABEL_RELAY: relay.name if relay else "",
        }
        binds = [f"{self._on_host(path)}:{inside}:{mode}" for inside, (path, mode) in mounted.items()]
        config = UNINHERITED | {
            "Image": shared.image,
            "Env": [f"{name}={value}" for name, value in variables.items()],
            "User": f"{shared.uid}:{shared.gid}",
            "Labels": NOT_COMPOSE | {LABEL_HOME: str(self._label), **labels},
            "HostConfig": hardened(shared.memory_mb, shared.pids)
            | {
                "Binds": [*binds, *shared.binds],
                "NetworkMode": shared.network,
                # Names of its own network are the engine's; others it must not look up, which some engines do for it.
                "Dns": [NO_RESOLVER],
                # The engine must not restart workers: after "replaced" (440) a restarted worker would fight the device
                # that replaced it, and after a reboot it would run with a stale epoch.
                "RestartPolicy": {"Name": "no"},
            },
        }
        if relay:  # by this name the relay knows whom it serves
            config["NetworkingConfig"] = {"EndpointsConfig": {shared.network: {"Aliases": [relay.clients]}}}
        return config | ({"Entrypoint": list(shared.command)} if shared.command else {})


def _found(raw: Mapping[str, Any]) -> FoundWorker:
    labels, created = raw["Labels"], raw["Created"]
    created_s = created if isinstance(created, int) else datetime.fromisoformat(created).timestamp()
    handle = f"{NAME}/{raw['Id']}"
    return FoundWorker(handle, labels[LABEL_SESSION], int(labels[LABEL_EPOCH]), int(created_s * 1000))
