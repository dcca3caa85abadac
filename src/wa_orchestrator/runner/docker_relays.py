"""Relay containers: each forwards TCP from the workers of one proxy to that proxy and the server, and nowhere else.

The workers' network is internal and the host has no address in it, so code in a worker's container reaches what is in
that network, and that is workers and relays. A relay is attached to it and to one that leads outside. It serves only
the workers of its own proxy: the engine's names tell which they are, and a container without privileges cannot use
the address of another. It is a container and not part of the server, because workers stay connected while the server
is upgraded; it uses the worker's image, because that contains Node. It knows no password: the SOCKS5 handshake passes
through unchanged.
"""

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import structlog
from aiodocker import Docker
from aiodocker.containers import DockerContainer
from aiodocker.exceptions import DockerError

from wa_orchestrator.domain.proxies import proxy_url
from wa_orchestrator.runner.container_spec import LABEL_HOME, NOT_COMPOSE, UNINHERITED, ContainerSpec, hardened
from wa_orchestrator.runner.contract import StartFailed, WorkerSpec

PREFIX = "wa_relay_"
#: Label of a relay: its installation. Label of a worker: the name of its relay.
LABEL_RELAY_HOME, LABEL_RELAY = "wa.relay.home", "wa.relay"
PORT = 1080
#: Where a relay leads to the server.
SERVER_PORT = 3003
#: Variables that have the server's address.
SERVER_URLS = {"WEBHOOK_URL", "OUTBOX_URL"}
MEMORY_MB = 96
PIDS = 32
_GONE = 404
#: Connections of one worker at a time; an honest one has about five.
_MOST_PER_WORKER: Final = 64
#: The option of a bridge by which the host gets no address in its network.
_NO_HOST: Final = "com.docker.network.bridge.inhibit_ipv4"
PROGRAM = """
const dns = require('node:dns')
const net = require('node:net')
const open = new Map()
const serve = (to, port) => net.createServer({ noDelay: true, keepAlive: true, allowHalfOpen: true }, near => {
  const from = near.remoteAddress.replace('::ffff:', '')
  const count = (open.get(from) || 0) + 1
  near.on('error', () => near.destroy())
  if (count > Number(process.env.MOST)) return near.destroy()
  open.set(from, count)
  near.on('close', () => open.get(from) > 1 ? open.set(from, open.get(from) - 1) : open.delete(from))
  dns.resolve4(process.env.CLIENTS, (error, clients) => {
    if (error || !clients.includes(from)) return near.destroy()
    const there = net.connect({ ...to, noDelay: true, keepAlive: true, allowHalfOpen: true })
    for (const [one, other] of [[near, there], [there, near]]) {
      one.pipe(other)
      one.on('error', () => other.destroy())
      one.on('close', () => other.end())
    }
  })
}).listen(port)
for (const [port, host, far] of JSON.parse(process.env.WAYS)) serve({ host, port: far }, port)
process.on('SIGTERM', () => process.exit(0))
"""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Relay:
    """A relay that runs, and the addresses that lead through it."""

    name: str
    proxy_url: str
    server: str
    """Host and port in place of the server's; '' where workers reach the server without it."""

    @property
    def clients(self) -> str:
        """The name that all workers that may use it share in their network."""
        return f"of_{self.name}"


def through(relay: Relay, spec: WorkerSpec) -> WorkerSpec:
    """Return the spec of a worker that reaches its proxy, and the server, through its relay."""
    environment = dict(spec.environment)
    if relay.server:
        for name in SERVER_URLS & environment.keys():
            environment[name] = urlsplit(environment[name])._replace(netloc=relay.server).geturl()
    return replace(spec, environment=environment, secrets={**spec.secrets, "PROXY_URL": relay.proxy_url})


async def ensure_network(docker: Docker, container_spec: ContainerSpec) -> tuple[str, ...]:
    """Create the workers' network if it does not exist, and return its ranges of addresses.

    Raises `StartFailed` if it is not internal. One in which the host has an address, of an earlier version, is used.
    """
    try:
        shown = await (await docker.networks.get(container_spec.network)).show()
    except DockerError as error:
        if error.status != _GONE:
            raise
        pool = {"Config": [{"Subnet": container_spec.subnet}]}
        network = {"Name": container_spec.network, "Driver": "bridge", "Internal": True, "IPAM": pool}
        await docker.networks.create(network | {"Options": {_NO_HOST: "true"}})
        return (container_spec.subnet,)
    if not shown["Internal"]:
        raise StartFailed(
            f"The network {container_spec.network} is not internal, so workers could bypass their proxies. "
            f"Stop its containers and run `docker network rm {container_spec.network}`; it is created anew."
        )
    if shown["Options"].get(_NO_HOST) != "true":
        log.warning("runner.host_in_workers_network", network=container_spec.network)  # docs/runner.md has the cure
    return tuple(str(each["Subnet"]) for each in shown["IPAM"]["Config"])


def _needs_relay(server: str, subnets: Sequence[str]) -> bool:
    """Whether workers reach the server through their relay: not where it has an address in their own network.

    Nor over TLS: the relay's name is not the one that the certificate is for.
    """
    parts = urlsplit(server)
    if parts.scheme != "http" or not parts.hostname:
        return False
    try:
        address = ip_address(parts.hostname)
    except ValueError:
        return True
    return not any(address in ip_network(each) for each in subnets)


def plan_relay(mark: str, url: str, server: str, subnets: Sequence[str]) -> tuple[Relay, dict[str, str]]:
    """Return the relay to this proxy and to the server at that URL, and the variables of its program.

    `mark` is what else makes it another one: its installation, its image.
    """
    proxy = proxy_url.parse(url)
    ways: list[tuple[int, str, int]] = [(PORT, proxy.host, proxy.port)]
    if _needs_relay(server, subnets):
        parts = urlsplit(server)
        ways.append((SERVER_PORT, str(parts.hostname), parts.port or 80))
    name = PREFIX + hashlib.sha256(f"{mark} {PROGRAM} {ways}".encode()).hexdigest()[:12]
    through_relay = f"{name}:{SERVER_PORT}" if len(ways) > 1 else ""
    relay = Relay(name, replace(proxy, host=name, port=PORT).url, through_relay)
    return relay, {"WAYS": json.dumps(ways), "CLIENTS": relay.clients, "MOST": str(_MOST_PER_WORKER)}


class ProxyRelays:
    """The relays of one installation."""

    def __init__(self, docker: Docker, home: Path, container_spec: ContainerSpec) -> None:
        """`home` is the installation's directory on the engine's machine."""
        self._docker = docker
        self._home = home
        self._container_spec = container_spec
        #: Held from the start of a relay until its first worker exists: `drop_unused` removes relays without workers.
        self.lock = asyncio.Lock()

    async def ensure(self, url: str, server: str, subnets: Sequence[str]) -> Relay:
        """Return the relay to this proxy and to the server at that URL. It runs then."""
        relay, variables = plan_relay(f"{self._home} {self._container_spec}", url, server, subnets)
        try:
            container = await self._docker.containers.get(relay.name)
        except DockerError as error:
            if error.status != _GONE:
                raise
            container = await self._create(relay.name, variables)
        await container.start()
        return relay

    async def _create(self, name: str, variables: Mapping[str, str]) -> DockerContainer:
        config: dict[str, Any] = UNINHERITED | {
            "Image": self._container_spec.image,
            "Entrypoint": ["node", "-e", PROGRAM],
            "Env": [f"{key}={value}" for key, value in variables.items()],
            "User": f"{self._container_spec.uid}:{self._container_spec.gid}",
            "Labels": NOT_COMPOSE | {LABEL_RELAY_HOME: str(self._home)},
            "HostConfig": hardened(MEMORY_MB, PIDS)
            | {
                "Binds": list(self._container_spec.binds),
                "NetworkMode": self._container_spec.outside,
                "RestartPolicy": {"Name": "unless-stopped"},
                "ExtraHosts": ["host.docker.internal:host-gateway"],
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
