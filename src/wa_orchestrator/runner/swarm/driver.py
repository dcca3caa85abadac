"""Swarm driver: each worker is a service, placed by the engine, found again by its labels, never restarted.

Credentials are not on any node's disk: a worker has an empty directory in memory and brings them from the server. So it
can be started on every node, and a node that is lost takes nothing along.
"""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import structlog
from aiodocker import Docker
from aiodocker.exceptions import DockerError

from wa_orchestrator.domain.sessions.reconciliation import FoundWorker
from wa_orchestrator.domain.workers.nodes import WorkerNode
from wa_orchestrator.runner.container_spec import (
    AUTH_DIR_IN_MEMORY,
    LABEL_EPOCH,
    LABEL_HOME,
    LABEL_SESSION,
    SECRETS_DIR,
    ContainerSpec,
    worker_variables,
)
from wa_orchestrator.runner.contract import AlreadyRunning, Exited, Lost, Running, StartFailed, WorkerSpec
from wa_orchestrator.runner.docker_errors import UNREACHABLE, engine_errors
from wa_orchestrator.runner.docker_relays import LABEL_RELAY, Relay, through
from wa_orchestrator.runner.shared_survey import SharedSurvey
from wa_orchestrator.runner.swarm.nodes import SwarmNodes
from wa_orchestrator.runner.swarm.relays import RelayServices
from wa_orchestrator.runner.swarm.service_spec import confine_worker, service_template
from wa_orchestrator.runner.swarm.services import Services, Task, ensure_overlay

NAME = "swarm/1"
PREFIX = "wa_session_"
#: An authority's certificate travels as the secrets do.
_AUTHORITIES = "NODE_EXTRA_CA_CERTS"
_GONE, _TAKEN, _IN_USE = 404, 409, 400

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _SwarmSecret:
    """A secret as the engine keeps it, and the name of its file in the container."""

    id: str
    name: str
    file: str


class SwarmRunner:
    """Runs workers as services of the installation `cluster`. See `contract.Runner`."""

    def __init__(
        self, docker: Docker, cluster: str, container_spec: ContainerSpec, constraints: Sequence[str] = ()
    ) -> None:
        """`constraints` say which nodes may have workers and relays, as `docker service create --constraint` does."""
        self._docker = docker
        self._services = Services(docker)
        self._cluster = cluster
        self._label = f"{LABEL_HOME}={cluster}"
        self._container_spec = container_spec
        self._constraints = tuple(constraints)
        self._relays = RelayServices(docker, cluster, container_spec, self._constraints)
        self._nodes = SwarmNodes(docker, self._constraints)
        self._polls = SharedSurvey(self.survey)

    async def start(self, spec: WorkerSpec) -> str:
        """Create secrets and service, and wait until its task runs. A dead service of the session is removed first."""
        name = self._name(spec.session_id)
        with engine_errors():
            try:
                await self._remove_dead(name, spec.session_id)
                service = await self._create(name, spec)
            except DockerError as error:
                if error.status == UNREACHABLE:
                    raise
                await self._delete_secrets(spec.session_id)
                raise StartFailed(f"The swarm could not create {name}: {error.message}") from error
        try:
            task = await self._services.wait_until_running(service, *self._labels_of(spec.session_id))
        except BaseException:
            await self._remove(service, spec.session_id)
            raise
        self._polls.forget()
        return _handle(task)

    async def poll(self, handle: str) -> Running | Exited | Lost:
        """Look the worker up in a survey, which all polls of a second share."""
        return await self._polls.poll(handle)

    async def stop(self, handle: str, grace_s: float = 10.0) -> None:
        """Remove the service with its secrets. The grace is the service's own: the engine takes no other."""
        name, _, rest = handle.rpartition("/")
        if name != NAME:
            return
        service = rest.partition("@")[0]
        if known := await self._services.find(service, self._label):
            labels = known["Spec"]["Labels"]
        elif left := [each for each in await self._services.tasks(self._label) if each.service == service]:
            labels = left[0].labels
        else:
            return
        await self._remove(service, labels[LABEL_SESSION])
        self._polls.forget()
        await self._drop_relays()

    async def survey(self) -> Sequence[FoundWorker]:
        """Return the tasks that run. Of one whose node is away nobody knows; it counts until its service is removed."""
        known = {each["ID"] for each in await self._services.list(self._label)}
        tasks = await self._services.tasks(self._label)
        return [_found(each) for each in tasks if each.runs and (each.service in known or not each.is_away)]

    async def nodes(self) -> Sequence[WorkerNode]:
        """Return the nodes that the constraints leave for workers. The leader asks for them every few seconds."""
        if self._relays.unused_since:
            await self._drop_relays()
        return await self._nodes.list()

    async def close_node(self, node: str) -> None:
        """Pause the node: its tasks run on, and the server moves the workers among them one after another."""
        await self._nodes.set_availability(node, "pause")

    async def vacate_node(self, node: str) -> None:
        """Drain the node: the engine starts its relays, and whatever else runs there, on other nodes."""
        await self._nodes.set_availability(node, "drain")

    async def open_node(self, node: str) -> None:
        await self._nodes.set_availability(node, "active")

    def _name(self, session_id: str) -> str:
        """Return the service's name: at most 63 characters, and another one for each installation of a swarm."""
        mark = hashlib.sha256(f"{self._cluster} {session_id}".encode()).hexdigest()[:10]
        return f"{PREFIX}{session_id[:40]}_{mark}"

    async def _remove_dead(self, name: str, session_id: str) -> None:
        tasks = await self._services.tasks(*self._labels_of(session_id))
        services = [
            each for each in await self._services.list(*self._labels_of(session_id)) if each["Spec"]["Name"] == name
        ]
        known = {each["ID"] for each in services}
        if any(each.is_live and (each.service in known or not each.is_away) for each in tasks):
            raise AlreadyRunning(session_id)
        for each in known:
            await self._services.remove(each, *self._labels_of(session_id))
        await self._delete_secrets(session_id)

    async def _create(self, name: str, spec: WorkerSpec) -> str:
        shared = self._container_spec
        subnets = await ensure_overlay(self._docker, shared.network, internal=True, subnet=shared.subnet)
        async with self._relays.lock:
            relay = None
            if url := spec.secrets.get("PROXY_URL"):
                relay = await self._relays.ensure(url, spec.environment.get("WEBHOOK_URL", ""), subnets)
                spec = through(relay, spec)
            spec, files = _with_authorities(spec)
            secrets = [await self._create_secret(spec, *each) for each in files.items()]
            labels = self._labels(spec) | {LABEL_RELAY: relay.name if relay else ""}
            return await self._services.create(name, self._template(spec, relay, secrets, labels), labels)

    def _labels_of(self, session_id: str) -> list[str]:
        """Return what finds one session alone: asking for all of them at each start makes a thousand starts slow."""
        return [self._label, f"{LABEL_SESSION}={session_id}"]

    def _labels(self, spec: WorkerSpec) -> dict[str, str]:
        return {LABEL_HOME: self._cluster, LABEL_SESSION: spec.session_id, LABEL_EPOCH: str(spec.epoch)}

    def _template(
        self, spec: WorkerSpec, relay: Relay | None, secrets: Sequence[_SwarmSecret], labels: Mapping[str, str]
    ) -> dict[str, Any]:
        shared = self._container_spec
        variables = worker_variables(spec, shared.memory_mb, AUTH_DIR_IN_MEMORY)
        template = service_template(shared, variables, labels, shared.memory_mb, shared.pids)
        confine_worker(template["ContainerSpec"])
        template["ContainerSpec"]["Secrets"] = [self._mounted(each) for each in secrets]
        if shared.command:
            template["ContainerSpec"]["Command"] = list(shared.command)
        # By the alias the relay knows whom it serves.
        template["Networks"] = [{"Target": shared.network, "Aliases": [relay.clients] if relay else []}]
        # The engine must not restart workers: see `docker.py`. Nor does it move one whose node is lost.
        template["RestartPolicy"] = {"Condition": "none"}
        chosen = [f"node.hostname=={spec.node}"] if spec.node else []
        template["Placement"] = {"Constraints": [*self._constraints, *chosen]}
        return template

    def _mounted(self, secret: _SwarmSecret) -> dict[str, Any]:
        shared = self._container_spec
        file = {"Name": secret.file, "UID": str(shared.uid), "GID": str(shared.gid), "Mode": 0o400}
        return {"SecretID": secret.id, "SecretName": secret.name, "File": file}

    async def _create_secret(self, spec: WorkerSpec, file: str, value: str) -> _SwarmSecret:
        """Create a secret of this epoch. It is in memory on the worker's node, and in no description."""
        mark = hashlib.sha256(f"{self._cluster} {spec.session_id} {file}".encode()).hexdigest()[:20]
        name = f"wa_{mark}_{spec.epoch}"
        made = await self._docker.secrets.create(name, value, labels=self._labels(spec))
        return _SwarmSecret(made["ID"], name, file)

    async def _drop_relays(self) -> None:
        try:
            await self._relays.drop_unused()
        except (DockerError, OSError) as error:
            log.warning("relays.not_removed", error=str(error))

    async def _remove(self, service: str, session_id: str) -> None:
        await self._services.remove(service, *self._labels_of(session_id))
        await self._delete_secrets(session_id)

    async def _delete_secrets(self, session_id: str) -> None:
        """Delete the session's secrets that no service uses."""
        with engine_errors():
            wanted = {"label": self._labels_of(session_id)}
            for each in await self._docker.secrets.list(filters=wanted):
                with engine_errors(_GONE, _IN_USE, _TAKEN):
                    await self._docker.secrets.delete(each["ID"])


def _with_authorities(spec: WorkerSpec) -> tuple[WorkerSpec, dict[str, str]]:
    """Return the spec as the container sees it, and its secret files with what is in them."""
    files = {name.lower(): value for name, value in spec.secrets.items()}
    if not (path := spec.environment.get(_AUTHORITIES)):
        return spec, files
    inside = f"{SECRETS_DIR}/{_AUTHORITIES.lower()}"
    with suppress(FileNotFoundError):  # the worker itself says that it trusts nobody
        files[_AUTHORITIES.lower()] = Path(path).read_text("utf-8")
    return replace(spec, environment={**spec.environment, _AUTHORITIES: inside}), files


def _handle(task: Task) -> str:
    return f"{NAME}/{task.service}@{task.node}"


def _found(task: Task) -> FoundWorker:
    session_id, epoch = task.labels[LABEL_SESSION], int(task.labels[LABEL_EPOCH])
    return FoundWorker(_handle(task), session_id, epoch, task.created_at_ms, task.is_away)
