"""whatsmeow as a process of its own, linked to a phone of a simulated world."""

import asyncio
import itertools
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE_S
from wa_orchestrator.simulator.world import World

CLIENT = Path(__file__).with_name("client.py")
_numbers = itertools.count(1)


class Whatsmeow:
    """The client's process and what it has told."""

    def __init__(self, process: asyncio.subprocess.Process, phone: str) -> None:
        self.process = process
        self.phone = phone
        self.events: list[dict[str, Any]] = []

    async def until(self, kind: str, *, after: int = 0, **fields: Any) -> dict[str, Any]:
        """Return the event of that kind with these fields, told already (after so many others) or to come."""
        position = after
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for event in self.events[position:]:
                    position += 1
                    if event["kind"] == kind and all(event.get(name) == value for name, value in fields.items()):
                        return event
                line = await self.process.stdout.readline()
                assert line, "whatsmeow has ended"
                self.events.append(json.loads(line))
                assert self.events[-1]["kind"] != "failed", self.events[-1]

    async def do(self, what: str, **fields: Any) -> dict[str, Any]:
        number = next(_numbers)
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": what, "n": number, **fields}).encode() + b"\n")
        return await self.until("done", n=number)


@asynccontextmanager
async def whatsmeow(world: World, phone: str, directory: Path) -> AsyncIterator[Whatsmeow]:
    """Start the client and link it to a phone."""
    environment = {
        **os.environ,
        "CLIENT_DIR": str(directory),
        "NOISE_ROOT": world.whatsapp.noise_root.hex(),
        "PROXY_URL": world.proxies[0],
        "SSL_CERT_FILE": str(world.ca_file),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, CLIENT, env=environment, limit=1 << 20, stdin=PIPE, stdout=PIPE, stderr=DEVNULL
    )
    try:
        running = Whatsmeow(process, phone)
        code = await running.until("qr")
        await world.whatsapp.scan(phone, code["qr"])
        await running.until("connected")
        yield running
    finally:
        process.kill()
        await process.wait()
