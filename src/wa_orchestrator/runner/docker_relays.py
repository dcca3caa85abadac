"""The only way out of a worker's container: a relay, which hands bytes to one proxy and to nothing else.

Workers' network is internal: the engine forwards nothing from it to anywhere. A relay stands in that network and in
the engine's ordinary one, and leads from the first to its proxy. It is a container and no part of the server, because
workers stay connected while the server is upgraded; it is made of the worker's image, because Node is in it. It knows
no password: what a worker says to its proxy passes through as it is.
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
from wa_orchestrator.runner.container_spec import LABEL_HOME, ContainerSpec, hardened
from wa_orchestrator.runner.contract import StartFailed

PREFIX = "wa_relay_"
#: On a relay: whose it is. On a worker: the name of its relay.
LABEL_RELAY_HOME, LABEL_RELAY = "wa.relay.home", "wa.relay"
PORT = 1080
_OUTSIDE = "bridge"
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


async def ensure_network(docker: Docker, box: ContainerSpec) -> None:
    """Make the workers' network, if there is none; raise CannotStart for one that leads somewhere."""
    try:
        shown = await (await docker.networks.get(box.network)).show()
    except DockerError as error:
        if error.status != _GONE:
            raise
        pool = {"Config": [{"Subnet": box.subnet}]}
        await docker.networks.create({"Name": box.network, "Driver": "bridge", "Internal": True, "IPAM": pool})
        return
    if not shown["Internal"]:
        raise StartFailed(
            f"The network {box.network} lets workers out past their proxies. "
            f"Stop what uses it, then `docker network rm {box.network}`: it is made again, as an internal one."
        )


class ProxyRelays:
    """The relays of one installation, whose directory is `home`."""

    def __init__(self, docker: Docker, home: Path, box: ContainerSpec) -> None:
        self._docker = docker
        self._home = home
        self._box = box
        #: Held from the start of a relay until its first user is there: a relay that nobody uses is removed.
        self.moving = asyncio.Lock()

    async def through(self, url: str) -> tuple[str, str]:
        """Give the name of a relay to this proxy, and the proxy's address through it. It runs when this returns."""
        proxy = proxy_url.parse(url)
        # Another home, image or program needs another relay.
        mark = f"{self._home} {self._box} {PROGRAM} {proxy.host}:{proxy.port}"
        name = PREFIX + hashlib.sha256(mark.encode()).hexdigest()[:12]
        try:
            relay = await self._docker.containers.get(name)
        except DockerError as error:
            if error.status != _GONE:
                raise
            relay = await self._make(name, proxy.host, proxy.port)
        await relay.start()
        return name, replace(proxy, host=name, port=PORT).url

    async def _make(self, name: str, host: str, port: int) -> DockerContainer:
        config: dict[str, Any] = {
            "Image": self._box.image,
            "Entrypoint": ["node", "-e", PROGRAM],
            "Env": [f"TO_HOST={host}", f"TO_PORT={port}", f"PORT={PORT}"],
            "User": f"{self._box.uid}:{self._box.gid}",
            "Labels": {LABEL_RELAY_HOME: str(self._home)},
            "HostConfig": hardened(_MEMORY_MB, _PIDS)
            | {"Binds": list(self._box.binds), "NetworkMode": _OUTSIDE, "RestartPolicy": {"Name": "unless-stopped"}},
        }
        relay = await self._docker.containers.create(config, name=name)
        try:
            await (await self._docker.networks.get(self._box.network)).connect({"Container": relay.id})
        except DockerError:
            await relay.delete(force=True, v=True)  # a relay that nobody reaches would be found next time
            raise
        return relay

    async def drop_unused(self) -> None:
        """Remove the relays that none of our workers has."""
        async with self.moving:
            in_use = {each._container["Labels"].get(LABEL_RELAY) for each in await self._labelled(LABEL_HOME)}
            for relay in await self._labelled(LABEL_RELAY_HOME):
                if relay._container["Names"][0].removeprefix("/") not in in_use:
                    await relay.delete(force=True, v=True)

    async def _labelled(self, label: str) -> list[DockerContainer]:
        return await self._docker.containers.list(all=True, filters={"label": [f"{label}={self._home}"]})
