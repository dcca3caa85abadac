"""What only the driver of a swarm promises: services, secrets, relays, and what becomes of a lost node."""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiodocker import Docker

from tests.processes import Program
from tests.runner import swarm_nodes
from tests.runner.drivers import SESSION, driver, is_ready, spec, swarm_runner
from tests.runner.images import empty_directories, import_image, packed_worker
from tests.runner.neighbour import LISTEN
from tests.runner.swarm_nodes import Node
from tests.waiting import until
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.runner.container_spec import ContainerSpec
from wa_orchestrator.runner.contract import (
    Exited,
    Lost,
    LostAtStart,
    NoNodeForWorker,
    Runner,
    Running,
    StartFailed,
    WorkerSpec,
)
from wa_orchestrator.runner.swarm import relays as swarm_relays
from wa_orchestrator.runner.swarm import services
from wa_orchestrator.runner.swarm.driver import SwarmRunner

pytestmark = pytest.mark.docker
#: Tries its relay and the machine behind it, and tells what became of both.
TRY = """
const fs = require('node:fs'), net = require('node:net')
const relay = new URL(fs.readFileSync(process.env.PROXY_URL_FILE, 'utf8'))
const open = (host, port) => new Promise(tell => {
  const socket = net.connect({ host, port, timeout: 3000 })
  let connected = false
  socket.on('connect', () => { connected = true }).on('error', () => tell('closed')).on('timeout', () => tell('closed'))
  socket.on('data', () => tell('open')).on('close', () => tell(connected ? 'refused' : 'closed'))
})
const run = async () => {
  fs.mkdirSync(process.env.AUTH_DIR, { recursive: true, mode: 0o700 })
  fs.fchmodSync(fs.openSync(process.env.AUTH_DIR, 'r'), 0o700) // as the worker does: it must be its own
  const told = { relay: '', directly: '' }
  while (told.relay !== 'open') { // it starts, and a busy machine takes its time
    told.relay = await open(relay.hostname, Number(relay.port))
    await new Promise(go => setTimeout(go, 200))
  }
  told.directly = await open('FAR', 1080)
  const file = '/talk/' + process.env.SESSION_ID
  fs.writeFileSync(file + '.new', JSON.stringify(told))
  fs.renameSync(file + '.new', file) // whoever sees it reads all of it
}
run(); setInterval(() => {}, 1000); process.on('SIGTERM', () => process.exit())
"""


async def secrets_of(docker: Docker) -> list[str]:
    return [each["Spec"]["Name"] for each in await docker.secrets.list()]


async def shown_service(docker: Docker, handle: str) -> dict[str, Any]:
    return dict(await docker.services.inspect(handle.rpartition("/")[2].partition("@")[0]))


async def test_a_service_is_hardened_limited_never_restarted_and_shows_no_secret(
    swarm_node: Node, tmp_path: Path
) -> None:
    one = spec(tmp_path, epoch=5)
    async with driver("swarm", tmp_path) as runner, Docker(url=swarm_node.url) as docker:
        handle = await runner.start(one)
        await is_ready(one)
        assert handle.endswith(f"@{swarm_node.name}")
        shown = await shown_service(docker, handle)
        network = await (await docker.networks.get("wa_workers")).show()
        assert len(await secrets_of(docker)) == 1
        await runner.stop(handle)
        assert await secrets_of(docker) == []
    template = shown["Spec"]["TaskTemplate"]
    container = template["ContainerSpec"]
    assert "canary" not in json.dumps(shown)
    assert (container["User"], container["ReadOnly"], container["CapabilityDrop"]) == ("10001:10001", True, ["ALL"])
    assert template["Resources"]["Limits"] == {"MemoryBytes": 64 << 20, "Pids": 32}
    assert template["RestartPolicy"]["Condition"] == "none"
    assert {each["Target"] for each in container["Mounts"] if each["Type"] == "tmpfs"} == {"/tmp", "/app/session"}
    assert [each["File"]["Mode"] for each in container["Secrets"]] == [0o400]
    assert shown["Spec"]["EndpointSpec"]["Mode"] == "dnsrr"
    assert (shown["Spec"]["Labels"]["wa.session"], shown["Spec"]["Labels"]["wa.epoch"]) == (SESSION, "5")
    assert (network["Internal"], network["Driver"]) == (True, "overlay")


async def test_an_image_that_is_not_there_cannot_start_and_leaves_nothing(swarm_node: Node, tmp_path: Path) -> None:
    async with Docker(url=swarm_node.url) as docker:
        runner = SwarmRunner(docker, str(tmp_path), ContainerSpec("nowhere.invalid/none:latest"))
        with pytest.raises(StartFailed):
            await runner.start(spec(tmp_path))
        assert (await runner.survey(), await docker.services.list(), await secrets_of(docker)) == ([], [], [])


async def test_a_swarm_without_a_node_for_the_worker_is_no_fault_of_its_session(
    swarm_node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "_PLACED_WITHIN_S", 0.5)
    async with Docker(url=swarm_node.url) as docker:
        box = ContainerSpec(swarm_nodes.only()[1])
        runner = SwarmRunner(docker, str(tmp_path), box, ["node.labels.of_nobody==true"])
        with pytest.raises(Unavailable, match="no suitable node"):
            await runner.start(spec(tmp_path))
        assert await docker.services.list() == []


@pytest.mark.parametrize(
    ("constraints", "nodes"),
    [
        ([], 1),
        (["node.role==manager"], 1),
        (["node.role != manager"], 0),
        (["node.labels.sessions==true"], 0),
        (["node.labels.sessions!=true", "node.hostname==node-1"], 1),
        (["engine.labels.disk==ssd"], 1),
    ],
)
async def test_the_nodes_are_those_that_the_constraints_leave(
    swarm_node: Node, constraints: list[str], nodes: int
) -> None:
    async with Docker(url=swarm_node.url) as docker:
        found = await SwarmRunner(docker, "any", ContainerSpec("any"), constraints).nodes()
        assert len(found) == nodes
        assert all(each.worker_slots > 0 and each.address for each in found)


async def test_an_engine_that_is_not_in_a_swarm_or_away_is_no_proof_of_an_end(tmp_path: Path) -> None:
    async with Docker(url=f"unix://{tmp_path}/nothing.sock") as docker:
        with pytest.raises(Unavailable):
            await SwarmRunner(docker, "any", ContainerSpec("any")).poll("swarm/1/abc@node")


@contextmanager
def listening(node: Node, home: Path) -> Iterator[str]:
    """The address of a machine outside of the swarm that listens on port 1080: the nodes' switch."""
    program = LISTEN.replace("accept()[0].close()", "accept()[0].sendall(b'hello')")
    listener = Program(("ip", "netns", "exec", node.switch, sys.executable, "-c", program), log=home / "switch.log")
    try:
        listener.said("listening")
        yield swarm_nodes.SWITCH_ADDRESS
    finally:
        listener.end()


async def test_a_worker_reaches_its_proxy_through_its_relay_and_nothing_else(
    swarm_node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = tmp_path / "talk"
    talk.mkdir(mode=0o777)
    talk.chmod(0o777)
    async with Docker(url=swarm_node.url) as docker:
        await import_image(docker, await asyncio.to_thread(packed_worker), "wa-swarm-worker")
        with listening(swarm_node, tmp_path) as far:
            command = ("node", "-e", TRY.replace("FAR", far))
            box = ContainerSpec(
                "wa-swarm-worker:latest", 128, outside="wa_outside", command=command, binds=[f"{talk}:/talk"]
            )
            runner = SwarmRunner(docker, str(tmp_path), box)
            secrets = {"PROXY_URL": f"socks5h://user:canary@{far}:1080"}
            handles = [await runner.start(WorkerSpec(name, 1, tmp_path, {}, secrets)) for name in ("a", "b")]
            for name in ("a", "b"):
                await until((talk / name).exists, f"{name} has told what it reached")
                assert json.loads((talk / name).read_text()) == {"relay": "open", "directly": "closed"}
            assert len(await relays(docker)) == 1
            assert "canary" not in json.dumps(await docker.services.list())
            await runner.stop(handles[0])
            assert len(await relays(docker)) == 1
            await runner.stop(handles[1])
            assert len(await relays(docker)) == 1, "a worker that restarts would wait for a new one"
            monkeypatch.setattr(swarm_relays, "KEEP_S", 0)
            await runner.nodes()
            assert await relays(docker) == []


async def relays(docker: Docker) -> list[str]:
    names = [each["Spec"]["Name"] for each in await docker.services.list()]
    return [name for name in names if name.startswith("wa_relay_")]


@asynccontextmanager
async def three_nodes(home: Path) -> AsyncIterator[tuple[list[Node], Docker, SwarmRunner]]:
    with swarm_nodes.engines(3) as nodes:
        image = await swarm_nodes.join(nodes, empty_directories())
        async with Docker(url=nodes[0].url) as docker:
            yield nodes, docker, swarm_runner(docker, home, image)


async def becomes(runner: Runner, handle: str, state: type) -> None:
    async def is_so() -> bool:
        return isinstance(await runner.poll(handle), state)

    await until(is_so, f"{handle} is {state.__name__}")


async def states(runner: SwarmRunner) -> dict[str, str]:
    return {each.name: str(each.state) for each in await runner.nodes()}


async def test_a_lost_nodes_worker_is_lost_and_another_starts_elsewhere_while_a_drained_nodes_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with three_nodes(tmp_path) as (nodes, _, runner):
        lost, drained = spec(tmp_path, "lost"), spec(tmp_path, "drained")
        handles = {
            name: await runner.start(WorkerSpec(name, 1, one.auth_dir, {}, one.secrets, node))
            for name, one, node in (("lost", lost, "node-2"), ("drained", drained, "node-3"))
        }
        assert [each.rpartition("@")[2] for each in handles.values()] == ["node-2", "node-3"]
        await is_ready(lost)
        await is_ready(drained)

        # Closed: its worker runs on, and no other one is placed there.
        await runner.close_node("node-3")
        assert await states(runner) == {"node-1": "ready", "node-2": "ready", "node-3": "closed"}
        assert await runner.poll(handles["drained"]) == Running()
        with monkeypatch.context() as patch:
            patch.setattr(services, "_PLACED_WITHIN_S", 0.5)
            with pytest.raises(NoNodeForWorker):
                await runner.start(WorkerSpec("third", 1, lost.auth_dir, {}, lost.secrets, "node-3"))

        # Vacated: the engine ends its worker, which is no loss.
        await runner.vacate_node("node-3")
        await becomes(runner, handles["drained"], Exited)
        await runner.open_node("node-3")
        assert (await states(runner))["node-3"] == "ready"
        moved = await runner.start(WorkerSpec("drained", 2, drained.auth_dir, {}, drained.secrets, "node-3"))
        assert moved.endswith("@node-3")
        await runner.stop(moved)
        await runner.close_node("node-3")

        # Its engine killed: the worker runs on, and nobody knows. Until the swarm notices it gives the node more.
        nodes[1].kill()
        one = spec(tmp_path, "late")
        late = asyncio.create_task(runner.start(WorkerSpec("late", 1, one.auth_dir, {}, one.secrets, "node-2")))
        await becomes(runner, handles["lost"], Lost)
        with pytest.raises(LostAtStart, match="node-2"):
            await late
        assert (await states(runner))["node-2"] == "lost"
        assert [(each.handle, each.is_lost) for each in await runner.survey()] == [(handles["lost"], True)]
        await runner.stop(handles["lost"], 0)
        assert (await runner.poll(handles["lost"]), await runner.survey()) == (Exited(), [])
        again = await runner.start(spec(tmp_path, "lost", epoch=2))
        assert again.endswith("@node-1")
        assert swarm_nodes.containers_of(nodes[1]), "the old worker should have run on"

        # Its engine back: the engine ends what nobody wants, and the new worker stays.
        nodes[1].start()
        await until(lambda: not swarm_nodes.containers_of(nodes[1]), "the old worker is gone")
        assert await runner.poll(again) == Running()
        with contextlib.suppress(Unavailable):
            await runner.stop(again)
