"""An ordinary Baileys client with its multi-file directory: what an operator brings along from elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.waiting import PATIENCE_S
from tests.worker.harness import NODE, ROOT
from wa_orchestrator.simulator.world import World

CLIENT = ROOT / "tests" / "simulator" / "e2e" / "client.mjs"


class Plain:
    """The client's process: commands go in, events come out."""

    def __init__(self, process: asyncio.subprocess.Process, events: asyncio.StreamReader) -> None:
        self._process = process
        self._events = events

    async def event(self, name: str, **fields: Any) -> dict[str, Any]:
        """Read on until an event like this."""
        async with asyncio.timeout(PATIENCE_S):
            while line := await self._events.readline():
                event: dict[str, Any] = json.loads(line)
                if event["event"] == name and all(event.get(key) == value for key, value in fields.items()):
                    return event
        raise AssertionError(f"the client ended before {name}")

    async def do(self, command: str, **fields: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write((json.dumps({"do": command, "n": 1, **fields}) + "\n").encode())
        return await self.event("done")


@contextlib.asynccontextmanager
async def plain_client(world: World, directory: Path) -> AsyncIterator[Plain]:
    """A running client; when this is left it has saved everything and ended."""
    reading, writing = os.pipe()
    process = await asyncio.create_subprocess_exec(
        str(NODE),
        str(CLIENT),
        env={
            "PATH": os.environ["PATH"],
            "PROXY_URL": world.proxies[0],
            "AUTH_DIR": str(directory),
            "EVENTS_FD": str(writing),
            "NODE_EXTRA_CA_CERTS": str(world.ca_file),
        },
        pass_fds=(writing,),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
    )
    os.close(writing)
    events = asyncio.StreamReader(limit=1 << 20)
    pipe = os.fdopen(reading, "rb", buffering=0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(events), pipe
    )
    try:
        yield Plain(process, events)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()
        transport.close()
