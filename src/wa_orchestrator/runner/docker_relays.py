"""Relay containers: each forwards TCP from the workers' network to one proxy, and to nothing else.

The workers' network is internal: the engine forwards nothing out of it, so a worker cannot bypass its proxy. A relay is
attached to that network and to one that leads outside. It is a container and not part of the server, because workers
stay connected while the server is upgraded; it uses the worker's image, because that contains Node. It knows no
password: the SOCKS5 handshake passes through unchanged.
"""

import asyncio
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from aiodocker import Docker
from aiodocker.containers import DockerContainer
from aiodocker.exceptions import DockerError

from wa_orchestrator.domain import proxy_url
from wa_orchestrator.runner.container_spec import LABEL_HOME, NOT_COMPOSE, UNINHERITED, ContainerSpec, hardened
from wa_orchestrator.runner.contract import StartFailed

PREFIX = "wa_relay_"
#: Label of a relay: its installation. Label of a worker: the name of its relay.
LABEL_RELAY_HOME, LABEL_RELAY = "wa.relay.home", "wa.relay"
PORT = 1080
_MEMORY_MB = 96
_PIDS = 32
_GONE = 404
PROGRAM = """
const net = require('node:net')
const far = { host: process.env.TO_HOST, port: Number(process.env.TO_PORT), noDelay: true, keepAlive: true }
net.createServer({ noDelay: true, keepAlive: true, allowHalfOpen: true }, near => {
  const there = net.connect({ ...far, allowHalfOpen: true })
  for (const [one, other] of [[near, there], [there, near]]) {
    one.pipe(other)
    one.on('error', () => other.destroy())
    one.on('close', () => other.end())
  }
}).listen(Number(process.env.PORT))
process.on('SIGTERM', () => process.exit(0))
"""


async def ensure_network(docker: Docker, container_spec: ContainerSpec) -> None:
    """Create the workers' network if it does not exist; raise `StartFailed` if it is not internal."""
    try:
        shown = await (await docker.networks.get(container_spec.network)).show()
    except DockerError as error:
        if error.status != _GONE:
            raise
        pool = {"Config": [{"Subnet": container_spec.subnet}]}
        network = {"Name": container_spec.network, "Driver": "bridge", "Internal": True, "IPAM": pool}
        await docker.networks.create(network)
        return
    if not shown["Internal"]:
        raise StartFailed(
            f"The network {container_spec.network} is not internal, so workers could bypass their proxies. "
            f"Stop its containers and run `docker network rm {container_spec.network}`; it is created anew."
        )


class ProxyRelays:
    """The relays of one installation."""

    def __init__(self, docker: Docker, home: Path, container_spec: ContainerSpec) -> None:
        """`home` is the installation's directory on the engine's machine."""
        self._docker = docker
        self._home = home
        self._container_spec = container_spec
        #: Held from the start of a relay until its first worker exists: `drop_unused` removes relays without workers.
        self.lock = asyncio.Lock()

    async def ensure(self, url: str) -> tuple[str, str]:
        """Return the name of the relay to this proxy and the proxy's URL through it. The relay runs then."""
        proxy = proxy_url.parse(url)
        # Another home, image or program needs another relay.
        mark = f"{self._home} {self._container_spec} {PROGRAM} {proxy.host}:{proxy.port}"
        name = PREFIX + hashlib.sha256(mark.encode()).hexdigest()[:12]
        try:
            relay = await self._docker.containers.get(name)
        except DockerError as error:
            if error.status != _GONE:
                raise
            relay = await self._create(name, proxy.host, proxy.port)
        await relay.start()
        return name, replace(proxy, host=name, port=PORT).url

    async def _create(self, name: str, host: str, port: int) -> DockerContainer:
        config: dict[str, Any] = UNINHERITED | {
            "Image": self._container_spec.image,
            "Entrypoint": ["node", "-e", PROGRAM],
            "Env": [f"TO_HOST={host}", f"TO_PORT={port}", f"PORT={PORT}"],
            "User": f"{self._container_spec.uid}:{self._container_spec.gid}",
            "Labels": NOT_COMPOSE | {LABEL_RELAY_HOME: str(self._home)},
            "HostConfig": hardened(_MEMORY_MB, _PIDS)
            | {
                "Binds": list(self._container_spec.binds),
                "NetworkMode": self._container_spec.outside,
                "RestartPolicy": {"Name": "unless-stopped"},
            },
        }
        relay = await self._docker.containers.create(config, name=name)
        try:
            await (await self._docker.networks.get(self._container_spec.network)).connect({"Container": relay.id})
        except DockerError:
            # Otherwise the next call would find a relay that workers cannot reach.
            await relay.delete(force=True, v=True)
            raise
        return relay

    async def drop_unused(self) -> None:
        async with self.lock:
            in_use = {each._container["Labels"].get(LABEL_RELAY) for each in await self._labelled(LABEL_HOME)}
            for relay in await self._labelled(LABEL_RELAY_HOME):
                if relay._container["Names"][0].removeprefix("/") not in in_use:
                    await relay.delete(force=True, v=True)

    async def _labelled(self, label: str) -> list[DockerContainer]:
        return await self._docker.containers.list(all=True, filters={"label": [f"{label}={self._home}"]})
