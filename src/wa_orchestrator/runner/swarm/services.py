"""Services of a swarm: what the engine knows of their tasks and nodes, and how one is created, awaited and removed."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from aiodocker import Docker
from aiodocker.exceptions import DockerError

from wa_orchestrator.errors import Unavailable
from wa_orchestrator.runner.contract import LostAtStart, NoNodeForWorker, StartFailed
from wa_orchestrator.runner.docker_errors import engine_errors
from wa_orchestrator.runner.swarm.nodes import AWAY

#: States of a task before its process runs.
_COMING: Final = frozenset({"new", "allocated", "pending", "assigned", "accepted", "preparing", "ready", "starting"})
_LOOK_AGAIN_S = 0.1
#: A node without the image has to fetch it first.
_RUNNING_WITHIN_S = 300.0
#: How long the engine may say that no node has room.
_PLACED_WITHIN_S = 15.0
#: More than the grace of any service.
_GONE_WITHIN_S = 120.0
_GONE = 404


@dataclass(frozen=True, slots=True)
class Task:
    """The one process of a service."""

    service: str
    node: str
    """Host name; '' before the engine has chosen one."""
    is_away: bool
    """Its node does not answer: what is known of the task is old."""
    state: str
    error: str
    labels: Mapping[str, str]
    created_at_ms: int

    @property
    def runs(self) -> bool:
        return self.state == "running"

    @property
    def is_live(self) -> bool:
        return self.runs or self.state in _COMING


class Services:
    """The engine, which must be a manager of its swarm."""

    def __init__(self, docker: Docker) -> None:
        self._docker = docker

    async def tasks(self, *labels: str) -> list[Task]:
        """Return the tasks of all services with these labels, also of services that were removed."""
        with engine_errors():
            # Without the nodes tasks lie: those of a dead one say "running" for ever.
            nodes = {each["ID"]: each for each in await self._docker.nodes.list()}
            found = await self._docker.tasks.list(filters={"label": list(labels)})
        return [_task(each, nodes.get(each.get("NodeID", ""))) for each in found]

    async def list(self, *labels: str) -> list[Mapping[str, Any]]:
        """Return the services with these labels."""
        with engine_errors():
            return await self._docker.services.list(filters={"label": list(labels)})

    async def find(self, service: str, label: str) -> Mapping[str, Any] | None:
        """Return this service if it exists and has this label."""
        with engine_errors():
            found = await self._docker.services.list(filters={"id": [service], "label": [label]})
        return next((each for each in found if each["ID"] == service), None)

    async def create(self, name: str, template: Mapping[str, Any], labels: Mapping[str, str]) -> str:
        """Create a service of one replica and return its id. Its name leads to its task, by no virtual address."""
        made = await self._docker.services.create(
            template,
            name=name,
            labels=labels,
            mode={"Replicated": {"Replicas": 1}},
            endpoint_spec={"Mode": "dnsrr"},  # a virtual address needs IPVS, which not every kernel has
        )
        return str(made["ID"])

    async def wait_until_running(self, service: str, *labels: str) -> Task:
        """Return the service's task when its process runs.

        Raises `StartFailed` if it ended or was rejected, and `LostAtStart` if its node is away.
        """
        began = time.monotonic()
        while True:
            own = [each for each in await self.tasks(*labels) if each.service == service]
            if running := [each for each in own if each.runs]:
                return running[0]
            if ended := [each for each in own if not each.is_live]:
                raise StartFailed(f"The worker did not run: {ended[0].error or ended[0].state}")
            if own and all(each.is_away for each in own):
                # A node that has just gone gets tasks until the engine notices, which moves none of a worker's.
                raise LostAtStart(f"The node {own[0].node} does not answer: nobody knows whether the worker runs.")
            waited_s, refused = time.monotonic() - began, [each.error for each in own if each.error]
            if waited_s > _RUNNING_WITHIN_S or (refused and waited_s > _PLACED_WITHIN_S):
                reason = refused[0] if refused else "it takes too long"
                # No fault of the session: it must not use up its restarts.
                raise NoNodeForWorker(f"The swarm does not run a service: {reason}")
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def remove(self, service: str, *labels: str) -> None:
        """Remove a service. When it returns, nothing of it runs on a node that answers."""
        with engine_errors(_GONE):
            await self._docker.services.delete(service)
        deadline = time.monotonic() + _GONE_WITHIN_S
        # By label: of a service that was removed the engine tells no tasks.
        while any(task.service == service and task.is_live and not task.is_away for task in await self.tasks(*labels)):
            if time.monotonic() > deadline:
                raise Unavailable("WORKER_NOT_STOPPED", "The swarm does not end the tasks of a removed service.")
            await asyncio.sleep(_LOOK_AGAIN_S)


async def ensure_overlay(docker: Docker, name: str, *, internal: bool, subnet: str | None = None) -> Sequence[str]:
    """Create a network of all nodes if it does not exist, and return its ranges of addresses.

    Raises `StartFailed` if there is another kind of network by that name.
    """
    try:
        shown = await (await docker.networks.get(name)).show()
    except DockerError as error:
        if error.status != _GONE:
            raise
        pool = {"IPAM": {"Config": [{"Subnet": subnet}]}} if subnet else {}
        await docker.networks.create({"Name": name, "Driver": "overlay", "Internal": internal} | pool)
        return (subnet,) if subnet else ()  # the engine itself does not know it yet
    if shown["Driver"] != "overlay" or shown["Internal"] != internal:
        kind = "an internal overlay network" if internal else "an overlay network that leads outside"
        raise StartFailed(f"The network {name} is not {kind}. Run `docker network rm {name}`, or choose another.")
    return tuple(str(each["Subnet"]) for each in shown["IPAM"]["Config"] or ())


def _task(raw: Mapping[str, Any], node: Mapping[str, Any] | None) -> Task:
    status = raw["Status"]
    return Task(
        raw["ServiceID"],
        node["Description"]["Hostname"] if node else "",
        # A task that was never placed has no node; one whose node was removed from the swarm has a forgotten one.
        bool(raw.get("NodeID")) and (node is None or node["Status"]["State"] in AWAY),
        status["State"],
        status.get("Err", ""),
        raw["Spec"]["ContainerSpec"].get("Labels") or {},
        round(datetime.fromisoformat(raw["CreatedAt"]).timestamp() * 1000),
    )
