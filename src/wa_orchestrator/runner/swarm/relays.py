"""Relay services: the only way out of the workers' network, one for each proxy in use.

As `docker_relays.py` has it for one machine. The engine restarts a relay, also on another node: it has no state, and a
connection that breaks is one that its worker makes again.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from aiodocker import Docker
from aiodocker.exceptions import DockerError

from wa_orchestrator.runner.container_spec import LABEL_HOME, ContainerSpec
from wa_orchestrator.runner.docker_relays import (
    LABEL_RELAY,
    LABEL_RELAY_HOME,
    MEMORY_MB,
    PIDS,
    PROGRAM,
    Relay,
    plan_relay,
)
from wa_orchestrator.runner.swarm.service_spec import service_template
from wa_orchestrator.runner.swarm.services import Services, ensure_overlay

#: How long a relay without workers is kept: a session that restarts or moves needs it again in a moment, and the engine
#: takes seconds for a new one.
KEEP_S = 60.0
_GONE = 404


class RelayServices:
    """The relays of one installation."""

    def __init__(self, docker: Docker, cluster: str, container_spec: ContainerSpec, constraints: Sequence[str]) -> None:
        self._docker = docker
        self._services = Services(docker)
        self._cluster = cluster
        self._container_spec = container_spec
        self._constraints = constraints
        #: Held from the start of a relay until its first worker exists: `drop_unused` removes relays without workers.
        self.lock = asyncio.Lock()
        self.unused_since: dict[str, float] = {}
        """Relays that had no worker at the last look, by id."""

    async def ensure(self, url: str, server: str, subnets: Sequence[str]) -> Relay:
        """Return the relay to this proxy and to the server at that URL. It runs then."""
        relay, variables = plan_relay(f"{self._cluster} {self._container_spec}", url, server, subnets)
        label = f"{LABEL_RELAY_HOME}={self._cluster}"
        known = {each["Spec"]["Name"]: str(each["ID"]) for each in await self._services.list(label)}
        if relay.name not in known:
            known[relay.name] = await self._create(relay, variables)
            await self._services.wait_until_running(known[relay.name], label)
        return relay

    async def _create(self, relay: Relay, variables: dict[str, str]) -> str:
        spec = self._container_spec
        await ensure_overlay(self._docker, spec.outside, internal=False)
        labels = {LABEL_RELAY_HOME: self._cluster}
        template: dict[str, Any] = service_template(spec, variables, labels, MEMORY_MB, PIDS)
        template["ContainerSpec"]["Command"] = ["node", "-e", PROGRAM]
        template["Networks"] = [{"Target": spec.network}, {"Target": spec.outside}]
        template["RestartPolicy"] = {"Condition": "any", "Delay": 1_000_000_000}
        template["Placement"] = {"Constraints": list(self._constraints)}
        return await self._services.create(relay.name, template, labels)

    async def drop_unused(self) -> None:
        """Remove the relays that have had no worker for a while."""
        async with self.lock:
            workers = await self._services.list(f"{LABEL_HOME}={self._cluster}")
            in_use = {each["Spec"]["Labels"].get(LABEL_RELAY) for each in workers}
            relays = await self._services.list(f"{LABEL_RELAY_HOME}={self._cluster}")
            unused = [str(each["ID"]) for each in relays if each["Spec"]["Name"] not in in_use]
            now = time.monotonic()
            self.unused_since = {each: self.unused_since.get(each, now) for each in unused}
            for each in [each for each, since in self.unused_since.items() if now - since >= KEEP_S]:
                await self._delete(each)
                del self.unused_since[each]

    async def _delete(self, service: str) -> None:
        try:
            await self._docker.services.delete(service)
        except DockerError as error:
            if error.status != _GONE:
                raise
