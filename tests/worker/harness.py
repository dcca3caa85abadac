"""The real worker bundle as a process, against the simulated world and a stand-in for the orchestrator."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import secrets
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE_S
from tests.worker.standin import Json, StandIn, Station
from wa_orchestrator.runner.node_command import ENVIRONMENT, worker_command
from wa_orchestrator.simulator.world import World

ROOT = Path(__file__).parents[2]
BUNDLE = ROOT / "worker" / "dist" / "worker.cjs"
NODE = ROOT / ".venv" / "node" / "bin" / "node"
START_LIMIT_S = PATIENCE_S
MEMORY_MB = 256

#: Quick versions of every interval, so that tests wait for events and not for clocks.
FAST = {
    "RECONNECT_MIN_MS": "50",
    "RECONNECT_MAX_MS": "200",
    "COMMAND_WAIT_MS": "250",
    "CLAIM_WAIT_MS": "5000",
    "TYPING_MAX_MS": "40",
    "UNDECRYPTABLE_AFTER_MS": "1500",
    "DRIFT_AFTER_MS": "200",
    "LOG_LEVEL": "debug",
}

_numbers = itertools.count(secrets.randbelow(9_000_000) * 100)


def new_phone() -> str:
    """A phone nobody else uses."""
    return f"97250{next(_numbers):010d}"[:15]


@dataclass
class Process:
    """One run of the worker."""

    process: asyncio.subprocess.Process
    lines: list[Json] = field(default_factory=list)
    raw: list[str] = field(default_factory=list)
    readers: list[asyncio.Task[None]] = field(default_factory=list)

    async def ended(self, timeout: float = PATIENCE_S) -> int:
        async with asyncio.timeout(timeout):
            code = await self.process.wait()
            await asyncio.gather(*self.readers)
        return code

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.ended()

    async def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return await self.ended()

    @property
    def text(self) -> str:
        return "\n".join(self.raw)


async def launch(
    environment: dict[str, str], *arguments: str, prefix: tuple[str, ...] = (), options: tuple[str, ...] = ()
) -> Process:
    """Start the worker as the product does, with exactly this environment."""
    node, *rest = worker_command(BUNDLE, MEMORY_MB, NODE)
    process = await asyncio.create_subprocess_exec(
        *prefix,
        node,
        *options,
        *rest,
        *arguments,
        env={"PATH": os.environ["PATH"], **ENVIRONMENT, **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    run = Process(process)
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        run.readers.append(asyncio.create_task(_read(run, stream)))
    return run


async def _read(run: Process, stream: asyncio.StreamReader) -> None:
    while line := await stream.readline():
        text = line.decode().rstrip("\n")
        run.raw.append(text)
        with contextlib.suppress(ValueError):
            run.lines.append(json.loads(text))


@dataclass
class Rig:
    """A world, a server, and the workers that a test has started."""

    world: World
    server: StandIn
    directory: Path
    runs: list[Process] = field(default_factory=list)
    #: workers that outlive a test
    kept: list[Process] = field(default_factory=list)

    def session(self, **settings: str) -> Session:
        number = secrets.token_hex(4)
        return Session(self, f"worker_{number}", self.directory / number, new_phone(), settings)

    async def calm(self) -> None:
        """Kill what a test started and end all faults."""
        for run in self.runs:
            if run.process.returncode is None and run not in self.kept:
                await run.kill()
        self.runs = []
        await self.world.whatsapp.clear_faults()
        await self.world.pool.clear_faults()

    async def close(self) -> None:
        self.runs, self.kept = self.kept, []
        await self.calm()


@dataclass
class Session:
    """One session of the stand-in: its directory, its phone, and its worker's runs."""

    rig: Rig
    id: str
    directory: Path
    phone: str
    settings: dict[str, str]
    epoch: int = 0
    proxy: int = 0
    run: Process | None = None

    @property
    def station(self) -> Station:
        return self.rig.server.station(self.id)

    @property
    def worker(self) -> Process:
        assert self.run is not None
        return self.run

    def environment(self, **more: str) -> dict[str, str]:
        return {
            **FAST,
            **self.rig.server.environment(self.id, self.epoch),
            "AUTH_DIR": str(self.directory),
            "PROXY_URL": self.rig.world.proxies[self.proxy],
            "NODE_EXTRA_CA_CERTS": str(self.rig.world.ca_file),
            **self.settings,
            **more,
        }

    async def start(self, *, prefix: tuple[str, ...] = (), options: tuple[str, ...] = (), **more: str) -> Process:
        """Start a worker with a new epoch, as the server does."""
        self.epoch += 1
        self.rig.server.take_back(self.id)
        self.run = await launch(self.environment(**more), prefix=prefix, options=options)
        self.rig.runs.append(self.run)
        return self.run

    async def event(self, kind: str, *, after: int = 0, timeout: float = START_LIMIT_S, **data: Any) -> Json:
        waiting = asyncio.ensure_future(self.rig.server.event(self.id, kind, after=after, timeout=timeout, **data))
        ended = asyncio.ensure_future(self.worker.process.wait())
        await asyncio.wait({waiting, ended}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            # It may have been sent just before the end.
            await asyncio.wait({waiting}, timeout=5)
        ended.cancel()
        if not waiting.done():
            waiting.cancel()
            raise AssertionError(f"the worker ended before {kind}: {self.worker.text[-3000:]}")
        return waiting.result()

    async def link(self, *, prefix: tuple[str, ...] = (), options: tuple[str, ...] = (), **more: str) -> Json:
        """Start, scan the QR, and wait for the connection."""
        await self.start(prefix=prefix, options=options, **more)
        qr = await self.event("QR_CODE")
        await self.rig.world.whatsapp.scan(self.phone, qr["data"]["qr"])
        return await self.event("CONNECTED")

    async def restart(self, **more: str) -> Json:
        seen = len(self.station.events)
        await self.start(prefix=(), options=(), **more)
        return await self.event("CONNECTED", after=seen)

    async def say(self, to: str, text: str, **fields: Any) -> Json:
        return await self.rig.server.send(self.id, to, text=text, **fields)

    def arrivals(self, **like: Any) -> list[Json]:
        mine = [entry for entry in self.rig.world.whatsapp.arrivals() if entry["from"] == self.phone]
        return [entry for entry in mine if all(entry.get(name) == value for name, value in like.items())]


@contextlib.asynccontextmanager
async def rig(world: World, directory: Path) -> AsyncIterator[Rig]:
    async with StandIn() as server:
        running = Rig(world, server, directory)
        try:
            yield running
        finally:
            await running.close()
