"""The kinds of process that are compared: a plain Baileys process, and our worker as the product starts it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.worker.standin import StandIn

from wa_orchestrator.runner.node_command import ENVIRONMENT, node_binary, worker_command

MEMORY_MB = 256
START_LIMIT_S = 60.0
#: A plain process that is ended while it writes its credentials has lost its account.
WRITES_S = 2.0
PLAIN = Path(__file__).with_name("plain.mjs")


@dataclass
class Place:
    """The state of one account that outlives its process."""

    session_id: str
    phone: str
    directory: Path
    proxy: str
    ca_file: Path
    epoch: int = 0

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "AUTH_DIR": str(self.directory),
            "PROXY_URL": self.proxy,
            "NODE_EXTRA_CA_CERTS": str(self.ca_file),
        }


class Run(Protocol):
    """A started process."""

    pid: int

    async def qr(self) -> str: ...
    async def opened(self) -> None: ...
    async def stop(self) -> None: ...


class Kind(Protocol):
    """How a kind of process is started."""

    name: str

    async def start(self, place: Place) -> Run: ...


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
    await process.wait()


class PlainRun:
    """Follows its standard output, and keeps reading it: a full pipe would block the process and hide its end."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._reading = asyncio.create_task(self._read())
        self.pid = process.pid

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            if line.startswith(b'{"event"'):
                self._said.put_nowait(json.loads(line))

    async def qr(self) -> str:
        return str((await self._event("qr"))["qr"])

    async def opened(self) -> None:
        await self._event("open")

    async def _event(self, name: str) -> dict[str, Any]:
        async with asyncio.timeout(START_LIMIT_S):
            while (said := await self._said.get())["event"] != name:
                pass
        return said

    async def stop(self) -> None:
        await asyncio.sleep(WRITES_S)
        await _end(self._process)
        await self._reading


class Plain:
    """Plain Baileys, without the product."""

    name = "plain"

    async def start(self, place: Place) -> Run:
        process = await asyncio.create_subprocess_exec(
            str(node_binary()), str(PLAIN), env=place.environment(), stdout=asyncio.subprocess.PIPE
        )
        return PlainRun(process)


class WorkerRun:
    """Follows the events that a stub of the orchestrator receives."""

    def __init__(self, process: asyncio.subprocess.Process, server: StandIn, place: Place) -> None:
        self._process = process
        self._server = server
        self._place = place
        self._seen = len(server.station(place.session_id).events)
        self.pid = process.pid

    async def qr(self) -> str:
        event = await self._server.event(self._place.session_id, "QR_CODE", after=self._seen)
        return str(event["data"]["qr"])

    async def opened(self) -> None:
        await self._server.event(self._place.session_id, "CONNECTED", after=self._seen)

    async def stop(self) -> None:
        await _end(self._process)


class Worker:
    """The worker as the product starts it, with some settings overridden."""

    def __init__(self, server: StandIn, name: str = "worker", **settings: str) -> None:
        self.name = name
        self._server = server
        self._command = worker_command(None, MEMORY_MB)
        self._environment = {**ENVIRONMENT, **settings}

    async def start(self, place: Place) -> Run:
        place.epoch += 1
        self._server.take_back(place.session_id)
        environment = {
            **place.environment(),
            **self._server.environment(place.session_id, place.epoch),
            **self._environment,
        }
        process = await asyncio.create_subprocess_exec(
            *self._command, env=environment, stdout=asyncio.subprocess.DEVNULL
        )
        return WorkerRun(process, self._server, place)
