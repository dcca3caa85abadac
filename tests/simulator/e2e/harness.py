"""Harness: the simulator and Baileys clients as processes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx

from tests.waiting import PATIENCE_S, until

ROOT = Path(__file__).resolve().parents[3]
CLIENT = Path(__file__).with_name("client.mjs")
BAILEYS = ROOT / "worker" / "node_modules" / "baileys"
COMMAND = "from wa_orchestrator.cli.main import main; main()"

Event = dict[str, Any]
_phones = itertools.count(1)


def new_phone() -> str:
    """A number that no other test uses: worlds are shared by the tests of one process only."""
    return f"97250{next(_phones):07d}"


def node() -> str:
    """Node, as the project installs it."""
    installed = ROOT / ".venv" / "node" / "bin" / "node"
    return str(installed) if installed.exists() else str(shutil.which("node"))


class Outside:
    """A running simulator, through its control."""

    def __init__(self, ready: dict[str, Any]) -> None:
        self.ready = ready
        self.http = httpx.AsyncClient(base_url=ready["control"], timeout=PATIENCE_S)

    async def get(self, path: str, **query: Any) -> Any:
        answer = await self.http.get(path, params=query)
        answer.raise_for_status()
        return answer.json()

    async def post(self, path: str, **body: Any) -> Any:
        answer = await self.http.post(path, json=body or None)
        assert answer.is_success, answer.text
        return answer.json()

    async def fault(self, kind: str, *, target: Any = "whatsapp", **more: Any) -> None:
        await self.post("/faults", target=target, kind=kind, **more)

    async def calm(self) -> None:
        (await self.http.delete("/faults")).raise_for_status()

    async def shown(self, phone: str, **fields: Any) -> dict[str, Any]:
        """Wait until a phone shows a message with these fields."""

        async def look() -> dict[str, Any] | None:
            return first(await self.get(f"/phones/{phone}/inbox"), fields)

        return await until(look, f"{phone} shows a message with {fields}")

    async def proxy(self, number: int = 0) -> dict[str, Any]:
        pictures: list[dict[str, Any]] = await self.get("/proxies")
        return pictures[number]


@contextlib.asynccontextmanager
async def outside(*arguments: str) -> AsyncIterator[Outside]:
    """Start `wa-orchestrator simulate --json` and wait for its line."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", COMMAND, "simulate", "--json", *arguments, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE_S):
            line = await process.stdout.readline()
        world = Outside(json.loads(line))
        try:
            yield world
        finally:
            await world.http.aclose()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        async with asyncio.timeout(PATIENCE_S):
            rest = await process.stdout.read()
            status = await process.wait()
    assert (rest, status) == (b"", 0), "one line on standard output, and a clean end on SIGTERM"


def first(entries: list[dict[str, Any]], fields: dict[str, Any]) -> dict[str, Any] | None:
    return next((entry for entry in entries if fields.items() <= entry.items()), None)


class Baileys:
    """One Baileys process: its events and its commands."""

    def __init__(self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader) -> None:
        self.events: list[Event] = []
        self._process = process
        self._news = asyncio.Condition()
        self._numbers = itertools.count(1)
        self._reading = asyncio.create_task(self._read(reader))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            async with self._news:
                self.events.append(json.loads(line))
                self._news.notify_all()

    async def wait(self, event: str, *, after: int = 0, within_s: float = PATIENCE_S, **fields: Any) -> Event:
        """Wait for an event with these fields, among those from number `after` on."""
        wanted = {"event": event, **fields}

        def found() -> Event:
            return first(self.events[after:], wanted) or {}

        try:
            async with asyncio.timeout(within_s), self._news:
                return await self._news.wait_for(found)
        except TimeoutError:
            told = "\n".join(str({**one, "qr": "…"} if "qr" in one else one) for one in self.events)
            raise AssertionError(f"no {wanted} within {within_s} s; the client said:\n{told}") from None

    async def wait_status(self, message_id: str, status: int) -> None:
        """Wait until a message has at least this status; early receipts come with the message itself."""

        def reached() -> bool:
            return any(
                one.get("id") == message_id and (one.get("status") or 0) >= status
                for one in self.events
                if one["event"] in ("message", "update")
            )

        async with asyncio.timeout(PATIENCE_S), self._news:
            await self._news.wait_for(reached)

    async def ask(self, what: str, **fields: Any) -> Event:
        """Send a command and wait for its result, success or failure."""
        number = next(self._numbers)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": what, "n": number, **fields}).encode() + b"\n")
        return await self.wait("done", n=number)

    async def do(self, what: str, **fields: Any) -> Event:
        """Send a command that must succeed."""
        answer = await self.ask(what, **fields)
        assert "error" not in answer, answer
        return answer

    async def stop(self) -> None:
        """Let it write its credentials, then end it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), PATIENCE_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        await self._reading


@contextlib.asynccontextmanager
async def baileys(world: Outside, home: Path, *, proxy: int = 0, pairing_phone: str = "") -> AsyncIterator[Baileys]:
    """Run a client through one of the world's proxies, with its credentials in `home`."""
    readable, writable = os.pipe()
    environment = {
        "PROXY_URL": world.ready["proxies"][proxy],
        "NODE_EXTRA_CA_CERTS": world.ready["caFile"],
        "AUTH_DIR": str(home),
        "EVENTS_FD": str(writable),
        "PAIRING_PHONE": pairing_phone,
    }
    process = await asyncio.create_subprocess_exec(
        node(), str(CLIENT), env=environment, pass_fds=[writable], stdin=asyncio.subprocess.PIPE
    )
    os.close(writable)
    reader = asyncio.StreamReader(limit=1 << 22)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(readable, "rb", buffering=0)
    )
    client = Baileys(process, reader)
    try:
        yield client
    finally:
        await client.stop()
        transport.close()


@contextlib.asynccontextmanager
async def linked(world: Outside, home: Path, phone: str, *, proxy: int = 0) -> AsyncIterator[Baileys]:
    """Run a client and link it to `phone` by QR."""
    async with baileys(world, home, proxy=proxy) as client:
        shown = await client.wait("qr")
        # This client sends by numbers whatever the account; which kind takes what is tried with the worker.
        await world.post(f"/phones/{phone}/account", migrated=False)
        await world.post(f"/phones/{phone}/scan", qr=shown["qr"])
        await client.wait("open")
        yield client


def jid(phone: str) -> str:
    return f"{phone}@s.whatsapp.net"
