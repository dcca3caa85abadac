"""The whole life of a session whose worker is the real one, in a container, against the simulated world."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from aiodocker import Docker
from aiodocker.exceptions import DockerError
from pydantic import SecretStr

from tests.runner.drivers import address_outside, docker_or_skip, end_all, free_subnet, own_network, secret_files
from tests.runner.images import imported, packed_worker
from tests.runner.neighbour import neighbour
from tests.waiting import PATIENCE_S, until
from wa_orchestrator.runner.container_spec import LABEL_EPOCH, LABEL_HOME, ContainerSpec
from wa_orchestrator.runner.docker_relays import LABEL_RELAY, LABEL_RELAY_HOME, ensure_network
from wa_orchestrator.runner.docker_relays import PORT as RELAY_PORT
from wa_orchestrator.runner.node_command import heap_flag
from wa_orchestrator.server import bootstrap
from wa_orchestrator.settings import Settings
from wa_orchestrator.simulator.child_process import use_simulator
from wa_orchestrator.simulator.world import World

pytestmark = pytest.mark.docker
#: Container names are the engine's, and test processes share one engine.
SESSION = f"life-{uuid.uuid4().hex[:8]}"
KEY = "test-key-" + uuid.uuid4().hex
PHONE, PERSON = "972501230001", "972501230002"
WITHIN_S = PATIENCE_S
MEMORY_MB = 192
TRY = """
const socket = require('node:net').connect({ host: process.argv[1], port: Number(process.argv[2]), timeout: 3000 })
const tell = what => { console.log(what); process.exit() }
socket.on('connect', () => tell('open')).on('timeout', () => tell('closed')).on('error', () => tell('closed'))
"""


# -- the way out of a container: to this machine's loopback, over the bridge's own address ----------------------------


class Forwarder:
    """Hands connections to the bridge's address on to a port of the loopback address, which may be set later."""

    def __init__(self, port: int = 0) -> None:
        self.target = port

    @asynccontextmanager
    async def listening(self, address: str) -> AsyncIterator[int]:
        """Listen; give the port."""
        server = await asyncio.start_server(self._serve, address, 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            further, onward = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pour(reader, onward), _pour(further, writer))


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while part := await reader.read(65536):
            writer.write(part)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


# -- the stage --------------------------------------------------------------------------------------------------------


@dataclass
class Stage:
    """The product with containers as workers, and the simulated world."""

    docker: Docker
    home: Path
    proxies: list[str]
    api: httpx.AsyncClient
    control: httpx.AsyncClient

    async def containers(self) -> list[dict[str, Any]]:
        """All containers of this installation, ended ones too, as the engine shows them."""
        label = f"{LABEL_HOME}={self.home / 'workers'}"
        found = await self.docker.containers.list(all=True, filters={"label": [label]})
        shown = []
        for each in found:
            with suppress(DockerError):  # it may go between two questions
                shown.append(await each.show())
        return shown

    async def relays(self) -> list[str]:
        """The relays of this installation."""
        label = f"{LABEL_RELAY_HOME}={self.home / 'workers'}"
        return [each.id for each in await self.docker.containers.list(all=True, filters={"label": [label]})]

    async def connected(self, after: int) -> dict[str, Any]:
        """Wait until the session is connected with a worker newer than `after`; that worker's container."""

        async def there() -> dict[str, Any] | None:
            shown = (await self.api.get(f"/api/sessions/{SESSION}")).json()
            newer = [each for each in await self.containers() if epoch_of(each) > after and each["State"]["Running"]]
            return newer[0] if newer and shown["status"] == "connected" else None

        try:
            found: dict[str, Any] = await until(there, f"connected with an epoch after {after}", WITHIN_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{await self.story()}") from None
        return found

    async def scan(self) -> None:
        """Scan the session's code with the simulated phone."""

        async def scanned() -> bool:
            shown = await self.api.get(f"/api/sessions/{SESSION}/qr", headers={"Accept": "application/json"})
            if shown.status_code != httpx.codes.OK:
                return False
            return (await self.control.post(f"/phones/{PHONE}/scan", json={"qr": shown.json()["qr"]})).is_success

        try:
            await until(scanned, "a code that can be scanned", WITHIN_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{await self.story()}") from None

    async def send(self, text: str) -> None:
        """Send a text, and wait until it has arrived at WhatsApp exactly once."""
        body = {"to": PERSON, "message": text, "sessionId": SESSION}
        answer = await self.api.post("/api/v1/send", json=body)
        assert answer.is_success, answer.text
        message = answer.json()["messageId"]

        async def sent() -> str | None:
            shown = (await self.api.get(f"/api/v1/messages/{message}")).json()
            return shown["whatsappId"] if shown["status"] in ("sent", "delivered", "read") else None

        whatsapp_id = await until(sent, f"{text!r} is sent", WITHIN_S)
        arrivals = (await self.control.get("/arrivals", params={"after": 0})).json()
        arrivals = arrivals["arrivals"] if isinstance(arrivals, dict) else arrivals
        assert [each["id"] for each in arrivals if each["id"] == whatsapp_id] == [whatsapp_id]

    async def story(self) -> str:
        """What the session and its container say, for the error."""
        told = [(await self.api.get(f"/api/sessions/{SESSION}/status")).text]
        for each in await self.containers():
            container = self.docker.containers.container(each["Id"])
            told += [json.dumps(each["State"]), *await container.log(stdout=True, stderr=True)]
        return "\n".join(told)


async def has_one_way_out(docker: Docker, worker: dict[str, Any], home: Path) -> None:
    """The worker's container reaches its relay, and not the machine that its relay reaches."""
    relay = await (await docker.containers.get(worker["Config"]["Labels"][LABEL_RELAY])).show()
    inside = relay["NetworkSettings"]["Networks"][worker["HostConfig"]["NetworkMode"]]["IPAddress"]
    with neighbour(home) as address:
        assert await tried(docker, relay["Id"], address) == "open"
        assert [await tried(docker, worker["Id"], host) for host in (inside, address)] == ["open", "closed"]


async def tried(docker: Docker, container: str, host: str) -> str:
    """What becomes of a connection that code inside of the container tries."""
    execute = await docker.containers.container(container).exec(["node", "-e", TRY, host, str(RELAY_PORT)])
    async with execute.start() as stream:
        said = await stream.read_out()
    assert said is not None
    return said.data.decode().strip()


def epoch_of(container: dict[str, Any]) -> int:
    return int(container["Config"]["Labels"][LABEL_EPOCH])


@asynccontextmanager
async def staged(home: Path) -> AsyncIterator[Stage]:
    """Everything in one process but the workers, whose containers are gone afterwards."""
    async with AsyncExitStack() as stack:
        docker = await stack.enter_async_context(Docker())
        network = await stack.enter_async_context(own_network(docker))
        await ensure_network(docker, ContainerSpec("", network=network, subnet=free_subnet()))
        outside = await address_outside(docker)
        packed = await asyncio.to_thread(packed_worker)
        image = await stack.enter_async_context(imported(docker, packed))
        stack.push_async_callback(end_all, docker, home / "workers")
        world = await stack.enter_async_context(World(proxies=2))
        proxies = []
        for url in world.proxies:
            forwarder = Forwarder(urlsplit(url).port or 0)
            port = await stack.enter_async_context(forwarder.listening(outside))
            proxies.append(url.replace(url.rpartition("@")[2], f"{outside}:{port}"))
        door = Forwarder()
        port = await stack.enter_async_context(door.listening(outside))
        settings = Settings(
            api_key=SecretStr(KEY), webhook_secret=SecretStr("whsec_" + "A" * 43 + "="),
            dashboard_password=SecretStr(uuid.uuid4().hex), data_dir=home, orch_port=0, gateway_port=0,
            runner="docker", docker_image=image, docker_network=network, worker_url=f"http://{outside}:{port}", worker_memory_mb=MEMORY_MB,
            provisioning_interval_ms=100, monitor_interval_ms=1000, watchdog_interval_ms=1000, time_scale=5,
        )  # fmt: skip
        chosen = use_simulator(settings, world.ready | {"proxies": proxies})
        server = await stack.enter_async_context(bootstrap.running(chosen))
        stack.push_async_callback(server.stop_workers)
        door.target = server.context.settings.orch_port
        api = httpx.AsyncClient(base_url=server.url, headers={"X-API-Key": KEY}, timeout=PATIENCE_S)
        control = httpx.AsyncClient(base_url=world.control, timeout=PATIENCE_S)
        yield Stage(
            docker, home, proxies, await stack.enter_async_context(api), await stack.enter_async_context(control)
        )


def is_hardened(container: dict[str, Any], home: Path, proxies: list[str]) -> None:
    """The engine shows a container that can do little and tells nothing."""
    host, shown = container["HostConfig"], json.dumps(container)
    secrets = {path.name: path.read_text().strip() for path in secret_files(home / "workers")}
    assert len(secrets) == 3, sorted(secrets)
    passwords = [str(urlsplit(url).password) for url in proxies]
    assert [name for name, value in secrets.items() if value in shown] == []
    assert [each for each in (*passwords, KEY) if each in shown] == []
    assert container["Config"]["User"] == "10001:10001"
    assert (host["ReadonlyRootfs"], host["CapDrop"], host["Privileged"]) == (True, ["ALL"], False)
    assert "no-new-privileges:true" in host["SecurityOpt"]
    assert f"NODE_OPTIONS={heap_flag(MEMORY_MB)}" in container["Config"]["Env"]
    assert (host["PidsLimit"], host["Memory"], host["MemorySwap"]) == (64, MEMORY_MB << 20, MEMORY_MB << 20)
    assert host["NetworkMode"].startswith("wa-test-")


async def test_the_real_worker_lives_in_a_container_from_the_scan_to_the_deletion(tmp_path: Path) -> None:
    docker_or_skip()
    async with staged(tmp_path) as stage:
        made = await stage.api.post("/api/sessions/provision", json={"sessionId": SESSION})
        assert made.status_code == httpx.codes.CREATED, made.text
        await stage.scan()
        first = await stage.connected(after=0)
        await stage.send("Hello from a container.")
        await has_one_way_out(stage.docker, first, tmp_path)

        # Restarted: another container with a newer epoch, connected without a scan.
        (await stage.api.post(f"/api/sessions/{SESSION}/restart")).raise_for_status()
        second = await stage.connected(after=epoch_of(first))
        assert second["Id"] != first["Id"]

        # Killed by somebody: replaced, and the next message goes out.
        await stage.docker.containers.container(second["Id"]).kill()
        third = await stage.connected(after=epoch_of(second))
        await stage.send("Hello again.")
        assert [each["Id"] for each in await stage.containers()] == [third["Id"]]
        is_hardened(third, tmp_path, stage.proxies)

        # Deleted: nothing of it is left at the engine.
        (await stage.api.delete(f"/api/sessions/{SESSION}")).raise_for_status()

        async def gone() -> bool:
            return [*await stage.containers(), *await stage.relays()] == []

        await until(gone, "the container is gone, and after it its relay", WITHIN_S)
