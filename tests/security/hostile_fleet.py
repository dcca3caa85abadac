"""A server, a worker and a hostile worker: `python -m tests.security.hostile_fleet <directory> [bare]` prints what it reached."""

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.waiting import until
from wa_orchestrator.runner.confinement.layers import Layers
from wa_orchestrator.runner.contract import Runner, WorkerSpec
from wa_orchestrator.runner.factory import find_layers
from wa_orchestrator.runner.node_command import node_binary
from wa_orchestrator.runner.process import ProcessRunner
from wa_orchestrator.server import secrets
from wa_orchestrator.settings import Settings
from wa_orchestrator.store.engine.embedded_redis import EmbeddedRedis

PROGRAM = Path(__file__).with_name("hostile.cjs")
#: Container names are the engine's.
HOSTILE, VICTIM = f"hostile-{os.getpid()}", f"victim-{os.getpid()}"


@dataclass(frozen=True)
class Neighbourhood:
    """Listeners on this machine: those that a worker needs, and those that are none of its business."""

    host: str
    proxy: int
    other_proxy: int
    server: int
    other: int
    udp: int
    elsewhere: tuple[str, int]
    """On another machine, or another address of this one, with the same port as the proxy as the worker sees it."""
    unix: Path
    abstract: str


class _Echo(asyncio.DatagramProtocol):
    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._transport.sendto(data, addr)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    writer.close()


@asynccontextmanager
async def neighbourhood(
    home: Path, host: str, elsewhere: tuple[str, int] | None = None
) -> AsyncIterator[Neighbourhood]:
    loop = asyncio.get_running_loop()
    abstract = f"wa-test-{os.getpid()}"
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(f"\0{abstract}")
    proxy = await asyncio.start_server(_answer, host, 0)
    port = proxy.sockets[0].getsockname()[1]
    servers = [
        proxy,
        await asyncio.start_server(_answer, host, 0),
        await asyncio.start_server(_answer, "127.0.0.2", port),
        await asyncio.start_server(_answer, host, 0),
        await asyncio.start_server(_answer, host, 0),
        await asyncio.start_unix_server(_answer, home / "other.sock"),
        await asyncio.start_unix_server(_answer, sock=bound),
    ]
    udp, _ = await loop.create_datagram_endpoint(_Echo, local_addr=(host, 0))
    _, second, _, server, other, *_ = (each.sockets[0].getsockname() for each in servers)
    try:
        datagrams, far = udp.get_extra_info("sockname")[1], elsewhere or ("127.0.0.2", port)
        ports = (port, second[1], server[1], other[1], datagrams)
        yield Neighbourhood(host, *ports, far, home / "other.sock", abstract)
    finally:
        udp.close()
        for each in servers:
            each.close()


def spec(home: Path, session_id: str, around: Neighbourhood, **environment: str) -> WorkerSpec:
    base = f"http://{around.host}:{around.server}"
    environment |= {"WEBHOOK_URL": f"{base}/webhook", "OUTBOX_URL": f"{base}/outbox"}
    proxy = around.other_proxy if session_id == VICTIM else around.proxy
    kept = {"WORKER_TOKEN": f"token-of-{session_id}", "PROXY_URL": f"socks5h://u:p@{around.host}:{proxy}"}
    return WorkerSpec(session_id, 1, home / "data" / "sessions" / session_id, environment, kept)


async def attack(home: Path, runner: Runner, around: Neighbourhood, targets: dict[str, object]) -> dict[str, bool]:
    """Run a worker and a hostile one beside it; return what the hostile one reached."""
    victim = spec(home, VICTIM, around)
    other = await runner.start(victim)
    await until((victim.auth_dir / "auth.db").exists, "the other worker runs")
    public = home / "public"
    public.mkdir(mode=0o755, exist_ok=True)
    (public / "file").write_text("for all")
    secrets = home / "data" / "workers" / VICTIM / "secrets"
    proxy = urlsplit((secrets / "proxy_url").read_text())
    targets = {"hosts": [around.host], "otherProxy": [proxy.hostname, proxy.port]} | targets
    targets |= {
        "otherCredentials": str(victim.auth_dir / "auth.db"),
        "otherDirectory": str(victim.auth_dir),
        "otherToken": str(secrets / "worker_token"),
        "otherPid": int(other.split("/")[2]) if other.startswith("process/") else 1 << 22,
        "sessionsDirectory": str(victim.auth_dir.parent),
        "serverPid": os.getpid(),
        "unixSocket": str(around.unix),
        "abstractSocket": around.abstract,
        "publicFile": str(public / "file"),
        "bundle": str(PROGRAM.parent),
        "otherPort": around.other,
        "udpPort": around.udp,
        "elsewhere": around.elsewhere,
    }
    hostile = spec(home, HOSTILE, around, TARGETS=json.dumps(targets))
    handle = await runner.start(hostile)
    try:
        await until((hostile.auth_dir / "reached.json").exists, "the hostile worker has tried everything")
        return dict(json.loads((hostile.auth_dir / "reached.json").read_text()))
    finally:
        await runner.stop(handle, 0)
        await runner.stop(other, 0)


@asynccontextmanager
async def server_of(home: Path) -> AsyncIterator[dict[str, object]]:
    """The secrets and the Redis of a server, as targets."""
    settings, _ = secrets.ensure(Settings(data_dir=home / "data"))
    async with EmbeddedRedis(settings.data_dir) as redis:
        yield {
            "secrets": str(settings.data_dir / secrets.FILE_NAME),
            "redisPassword": str(settings.data_dir / "redis" / "password"),
            "redisSocket": redis.url.rpartition("@")[2],
        }


async def run(home: Path, layers: Layers | None = None) -> dict[str, Any]:
    """Attack the runner of processes, as whoever runs this, with the layers that this machine has."""
    layers = layers or find_layers(Settings(), str(node_binary()))
    runner = ProcessRunner(home / "data" / "workers", (str(node_binary()), str(PROGRAM)), layers)
    async with server_of(home) as targets, neighbourhood(home, "127.0.0.1") as around:
        reached = await attack(home, runner, around, targets)
    found = [layers.own_users, layers.landlock, layers.syscall_filter, bool(layers.control_group), *layers.gaps]
    return {"layers": found, "reached": reached}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run(Path(sys.argv[1]), Layers() if sys.argv[2:] == ["bare"] else None))))
