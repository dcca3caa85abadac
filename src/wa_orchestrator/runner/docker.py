"""Docker driver: each worker is a container `wa_session_<id>`, found again by its labels.

Directories and secrets are bind mounts, which the engine resolves on its own machine. A driver that runs in a container
itself must translate its paths (`own_container.py`).
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import structlog
from aiodocker import Docker
from aiodocker.containers import DockerContainer
from aiodocker.exceptions import DockerError

from wa_orchestrator.domain.reconcile import FoundWorker
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.runner.container_spec import LABEL_HOME, NOT_COMPOSE, UNINHERITED, ContainerSpec, hardened
from wa_orchestrator.runner.contract import AlreadyRunning, Exited, Running, StartFailed, WorkerSpec
from wa_orchestrator.runner.docker_relays import LABEL_RELAY, ProxyRelays, ensure_network
from wa_orchestrator.runner.node_command import ENVIRONMENT, heap_flag
from wa_orchestrator.runner.shared_survey import SharedSurvey
from wa_orchestrator.runner.worker_files import hand_over, private_directory, write_secrets

NAME = "docker/1"
PREFIX = "wa_session_"
LABEL_SESSION, LABEL_EPOCH = "wa.session", "wa.epoch"
AUTH_DIR, SECRETS_DIR, CA_DIR = "/app/session", "/run/secrets", "/run/ca"
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
        with _engine_errors():
            try:
                await self._remove_dead(name, spec.session_id)
                await ensure_network(self._docker, self._container_spec)
                container = await self._create(spec, name)
            except DockerError as error:
                raise StartFailed(f"Docker could not create {name}: {error.message}") from error
        try:
            await container.start()
        except (DockerError, OSError) as error:
            await self._delete(container)
            raise StartFailed(f"Docker could not start {name}: {error}") from error
        self._polls.forget()
        return f"{NAME}/{container.id}"

    async def _create(self, spec: WorkerSpec, name: str) -> DockerContainer:
        """Create the container. Its PROXY_URL names the relay to the proxy, not the proxy itself."""
        async with self._relays.lock:
            relay = ""
            if url := spec.secrets.get("PROXY_URL"):
                relay, relayed = await self._relays.ensure(url)
                spec = replace(spec, secrets={**spec.secrets, "PROXY_URL": relayed})
            return await self._docker.containers.create(self._config(spec, relay), name=name)

    async def poll(self, handle: str) -> Running | Exited:
        """Look the container up in the engine's listing, which all polls of a second share."""
        return Running() if await self._polls.has(handle) else Exited()

    async def stop(self, handle: str, grace_s: float = 10.0) -> None:
        """Stop and remove the container. Its directories are mounts and remain."""
        name, _, container_id = handle.rpartition("/")
        if name != NAME:
            return
        container = self._docker.containers.container(container_id)
        if not await self._is_ours(container):
            return
        if grace_s > 0:
            with _engine_errors(_GONE, _NOT_RUNNING):
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
        with _engine_errors():
            containers = await self._docker.containers.list(filters=filters)
        return [_found(each._container) for each in containers]

    async def _is_ours(self, container: DockerContainer) -> bool:
        """Whether a container exists and is a worker of this installation: a handle may name any."""
        with _engine_errors(_GONE):
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
        with _engine_errors(_GONE, _BUSY):  # busy: another call is removing it
            await container.delete(force=True, v=True)
        with _engine_errors(_GONE):
            while True:  # until it is gone
                await container.show()
                await asyncio.sleep(0.05)

    def _config(self, spec: WorkerSpec, relay: str) -> dict[str, Any]:
        shared = self._container_spec
        place = private_directory(self._home / spec.session_id)
        secrets = write_secrets(place / "secrets", spec.secrets)
        private_directory(spec.auth_dir)
        for tree in (place / "secrets", spec.auth_dir):
            hand_over(tree, shared.uid, shared.gid)
        environment = dict(spec.environment)
        mounted = {AUTH_DIR: (spec.auth_dir, "rw"), SECRETS_DIR: (place / "secrets", "ro")}
        if authorities := environment.get("NODE_EXTRA_CA_CERTS"):
            mounted[f"{CA_DIR}/ca.pem"] = (Path(authorities), "ro")
            environment["NODE_EXTRA_CA_CERTS"] = f"{CA_DIR}/ca.pem"
        variables = {
            **ENVIRONMENT,
            "NODE_OPTIONS": heap_flag(shared.memory_mb),
            **environment,
            **{f"{name}_FILE": f"{SECRETS_DIR}/{path.name}" for name, path in secrets.items()},
            "SESSION_ID": spec.session_id,
            "EPOCH": str(spec.epoch),
            "AUTH_DIR": AUTH_DIR,
            "HOME": "/tmp",  # noqa: S108 (the container's own tmpfs)
        }
        labels = {LABEL_SESSION: spec.session_id, LABEL_EPOCH: str(spec.epoch), LABEL_RELAY: relay}
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
                # The engine must not restart workers: after "replaced" (440) a restarted worker would fight the device
                # that replaced it, and after a reboot it would run with a stale epoch.
                "RestartPolicy": {"Name": "no"},
            },
        }
        return config | ({"Entrypoint": list(shared.command)} if shared.command else {})


def _found(raw: Mapping[str, Any]) -> FoundWorker:
    labels, created = raw["Labels"], raw["Created"]
    created_s = created if isinstance(created, int) else datetime.fromisoformat(created).timestamp()
    handle = f"{NAME}/{raw['Id']}"
    return FoundWorker(handle, labels[LABEL_SESSION], int(labels[LABEL_EPOCH]), int(created_s * 1000))


@contextmanager
def _engine_errors(*expected: int) -> Iterator[None]:
    """Raise `Unavailable` for an error of the engine, and nothing for one with an expected status."""
    try:
        yield
    except (DockerError, OSError) as error:
        if not isinstance(error, DockerError) or error.status not in expected:
            text = f"The Docker engine returned an error or does not respond: {error}"
            raise Unavailable("DOCKER_UNAVAILABLE", text) from error
