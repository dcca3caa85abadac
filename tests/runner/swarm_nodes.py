"""Docker engines of a swarm, each in a network namespace of its own: a node each, on one machine, without the host's own."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiodocker import Docker

from tests.runner.images import import_image
from tests.waiting import until, until_blocking

#: The manager of this process' own swarm of one node, and the image that it has; set by the fixture `swarm_node`.
_only: list[tuple["Node", str]] = []
#: Only inside of the namespaces: nothing of the machine can have it.
_NETWORK = "10.213.77"
#: A machine outside of the swarm that its nodes can reach.
SWITCH_ADDRESS = f"{_NETWORK}.1"
_MANAGER_PORT = 2377


def only() -> tuple["Node", str]:
    """The node of the fixture `swarm_node`, and its image."""
    return _only[0]


def use(node: "Node", image: str) -> None:
    _only[:] = [(node, image)]


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@dataclass
class Node:
    """An engine in a namespace."""

    name: str
    space: str
    address: str
    home: Path
    cable: str
    """Its end at the switch."""
    engine: subprocess.Popen[bytes] = field(init=False)

    @property
    def switch(self) -> str:
        """The namespace that connects all nodes."""
        return self.space.rpartition("-")[0]

    @property
    def url(self) -> str:
        return f"unix://{self.home}/docker.sock"

    def start(self) -> None:
        """Start the engine; it answers when this returns."""
        options = f"--data-root {self.home}/data --exec-root {self.home}/run --pidfile {self.home}/pid -H {self.url}"
        namespaces = f"--containerd-namespace {self.space} --containerd-plugins-namespace {self.space}-plugins"
        # Not `ip netns exec`, which hides the control groups.
        command = f"hostname {self.name} && exec dockerd {options} {namespaces}"
        with (self.home / "log").open("ab") as log:
            self.engine = subprocess.Popen(
                ("nsenter", f"--net=/run/netns/{self.space}", "unshare", "--uts", "sh", "-c", command),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        until_blocking(self._answers, lambda: (self.home / "log").read_text()[-4000:])

    def kill(self) -> None:
        """Kill the engine; its containers run on."""
        self.engine.kill()
        self.engine.wait()

    def unplug(self) -> None:
        """Cut the node off from all others."""
        _ip("-n", self.switch, "link", "set", self.cable, "down")

    def plug(self) -> None:
        _ip("-n", self.switch, "link", "set", self.cable, "up")

    def stop(self) -> None:
        """End the engine with everything that it started, however it was left."""
        self.engine.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.engine.wait(60)
        self._end_all()

    def power_off(self) -> None:
        """Let the machine lose its power: the engine and everything that it started end at once, and tell nobody."""
        self.unplug()
        self._end_all()

    def _end_all(self) -> None:
        self.engine.kill()
        self.engine.wait()
        for pid in _processes_of(self.home):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _answers(self) -> bool:
        assert self.engine.poll() is None, (self.home / "log").read_text()[-4000:]
        asked = subprocess.run(["docker", "-H", self.url, "info"], capture_output=True, check=False)
        return asked.returncode == 0


def containers_of(node: Node) -> list[int]:
    """The processes in a node's containers, whether or not its engine runs."""
    return [pid for pid in _processes_of(node.home / "run") if b"/talk" in _command(pid)]


def _command(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def _processes_of(home: Path) -> list[int]:
    """The processes that an engine has started: its supervisors by their command line, and what they run."""
    parents: dict[int, int] = {}
    left: set[int] = set()
    for each in Path("/proc").iterdir():
        with contextlib.suppress(ValueError, OSError, IndexError):
            pid = int(each.name)
            parents[pid] = int((each / "stat").read_text().rpartition(")")[2].split()[1])
            if str(home).encode() in (each / "cmdline").read_bytes():
                left.add(pid)
    for _ in range(8):
        left |= {pid for pid, parent in parents.items() if parent in left}
    return [pid for pid in left if pid != os.getpid()]


@contextmanager
def engines(count: int) -> Iterator[list[Node]]:
    """Start so many engines, whose namespaces share a switch."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "nsenter", "dockerd", "docker"))):
        reason = "a swarm cannot be made here: it needs root, the ip command and dockerd"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    switch = f"wa{uuid.uuid4().hex[:6]}"
    base = Path(tempfile.mkdtemp(prefix="wa-swarm-"))  # short: the kernel takes 107 characters for a socket
    nodes: list[Node] = []
    _ip("netns", "add", switch)
    try:
        _ip("-n", switch, "link", "add", "br0", "type", "bridge")
        _ip("-n", switch, "link", "set", "br0", "up")
        _ip("-n", switch, "addr", "add", f"{SWITCH_ADDRESS}/24", "dev", "br0")
        for number in range(1, count + 1):
            space, home = f"{switch}-{number}", base / str(number)
            home.mkdir()
            node = Node(f"node-{number}", space, f"{_NETWORK}.{10 + number}", home, f"port{number}")
            _connect(node, switch)
            node.start()
            nodes.append(node)
        yield nodes
    finally:
        for node in nodes:
            node.stop()
        for number in range(1, count + 1):
            subprocess.run(["ip", "netns", "del", f"{switch}-{number}"], check=False, capture_output=True)
        _ip("netns", "del", switch)
        _unmount(base)
        shutil.rmtree(base, ignore_errors=True)


def _connect(node: Node, switch: str) -> None:
    _ip("netns", "add", node.space)
    _ip("-n", switch, "link", "add", node.cable, "type", "veth", "peer", "name", "eth0", "netns", node.space)
    _ip("-n", switch, "link", "set", node.cable, "master", "br0", "up")
    _ip("-n", node.space, "link", "set", "lo", "up")
    _ip("-n", node.space, "addr", "add", f"{node.address}/24", "dev", "eth0")
    # No default route: each start would wait for the look-up of a registry.
    _ip("-n", node.space, "link", "set", "eth0", "up")


def _unmount(base: Path) -> None:
    mounted = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for path in reversed([each for each in mounted if each.startswith(f"{base}/")]):
        subprocess.run(["umount", "-l", path], check=False, capture_output=True)


async def join(nodes: list[Node], packed: bytes) -> str:
    """Make the engines a swarm, whose manager is the first; return the name of an image that all have."""
    name = f"wa-swarm-test-{uuid.uuid4().hex[:8]}"
    async with AsyncExitStack() as stack:
        manager, *others = [await stack.enter_async_context(Docker(url=node.url)) for node in nodes]
        where = f"{nodes[0].address}:{_MANAGER_PORT}"
        await manager.swarm.init(advertise_addr=where)
        token = (await manager.swarm.inspect())["JoinTokens"]["Worker"]
        for node, docker in zip(nodes[1:], others, strict=True):
            await docker.swarm.join(remote_addrs=[where], join_token=token, advertise_addr=node.address)
        for docker in (manager, *others):
            await import_image(docker, packed, name)

        async def all_ready() -> bool:
            return [each["Status"]["State"] for each in await manager.nodes.list()] == ["ready"] * len(nodes)

        await until(all_ready, "all nodes are ready")
    return f"{name}:latest"
