"""What benchmarks of two checkouts share: their servers, requests over kept connections, CPU time, quartiles.

Both are measured in turns within one run, so that a noisy machine disturbs both alike. What counts is CPU time of the
server's process and of Redis; rates and latencies say as much about the machine.
"""

import asyncio
import contextlib
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from bench import _results
from wa_orchestrator.store.engine.embedded_redis import EmbeddedRedis

ROOT = Path(__file__).parents[1]


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process and its threads. Not from its `stat`, which counts in steps of 10 ms."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text(encoding="ascii").split()[0]) for each in tasks) / 1e9


def rounds(usual: int) -> int:
    """Return how often everything is measured; `BENCH_ROUNDS` is for a machine that has little time."""
    return int(os.environ.get("BENCH_ROUNDS", usual))


def trees() -> dict[str, Path]:
    """Return the checkouts: this one, and the one before, which `BENCH_BEFORE` names."""
    before = os.environ.get("BENCH_BEFORE")
    return ({"before": Path(before)} if before else {}) | {"now": ROOT}


@dataclass(frozen=True, slots=True)
class Server:
    """A server of one checkout, with a Redis of its own that syncs every write."""

    port: int
    pid: int
    redis: Redis
    redis_pid: int
    home: Path

    async def redis_calls(self) -> int:
        """Return how many commands clients and scripts have run."""
        stats: dict[str, Any] = await self.redis.info("commandstats")
        return sum(each["calls"] for each in stats.values())


@contextlib.asynccontextmanager
async def served(
    tree: Path, kind: str, fill: Callable[[Redis], Awaitable[None]] | None = None
) -> AsyncIterator[Server]:
    """Serve a part of the product from a checkout; `fill` writes to its Redis before it starts."""
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory)
        async with EmbeddedRedis(home) as embedded:
            redis = Redis.from_url(embedded.url, decode_responses=True)
            if fill is not None:
                await fill(redis)
            paths = os.pathsep.join([str(tree / "src"), str(tree), str(ROOT)])
            environment = os.environ | {"PYTHONPATH": paths, "DATA_DIR": directory, "REDIS_ADDRESS": embedded.url}
            command = [sys.executable, str(ROOT / "bench" / "_served.py"), kind]
            process = await asyncio.create_subprocess_exec(
                *command, env=environment, cwd=tree, stdout=asyncio.subprocess.PIPE
            )
            rest: asyncio.Task[bytes] | None = None
            try:
                assert process.stdout is not None
                while not (line := await process.stdout.readline()).strip().isdigit():
                    assert line, "the server ended"  # lines of its log come first
                port = int(line)
                rest = asyncio.create_task(process.stdout.read())  # its log: a full pipe would never be closed
                redis_pid = int((await redis.info("server"))["process_id"])
                yield Server(port, process.pid, redis, redis_pid, home)
            finally:
                process.kill()
                await process.wait()
                if rest:
                    rest.cancel()
                await redis.aclose()


def request_bytes(method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    head = {"Host": "127.0.0.1", **headers, "Content-Length": str(len(body))}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Read one answer; returns its status and its body."""
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head[9:12])
    lower = head.lower()
    if b"transfer-encoding: chunked" in lower:
        body = b""
        while size := int(await reader.readline(), 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
        return status, body
    length = lower.partition(b"content-length:")[2].partition(b"\r\n")[0]
    return status, await reader.readexactly(int(length or 0))


async def send_all(port: int, requests: Sequence[bytes], connections: int) -> list[float]:
    """Send requests over so many kept connections; returns their latencies in ms. Every answer must be a success."""
    left = iter(requests)
    latencies: list[float] = []

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for request in left:
            begun = time.perf_counter()
            writer.write(request)
            status, body = await answer(reader)
            latencies.append((time.perf_counter() - begun) * 1000)
            assert status < 300, (status, body[:300])
        writer.close()

    await asyncio.gather(*(client() for _ in range(connections)))
    return latencies


@dataclass(frozen=True, slots=True)
class Cost:
    """What each of some requests cost."""

    server_ms: float
    redis_ms: float


@contextlib.contextmanager
def measured(server: Server, count: int) -> Iterator[Callable[[], Cost]]:
    """Measure the CPU time of a block that makes `count` requests."""
    before = cpu_s(server.pid), cpu_s(server.redis_pid)
    found: list[Cost] = []
    yield lambda: found[0]
    spent = cpu_s(server.pid) - before[0], cpu_s(server.redis_pid) - before[1]
    found.append(Cost(*(1000 * each / count for each in spent)))


def quartiles(figures: Sequence[float]) -> dict[str, float]:
    low, median, high = statistics.quantiles(figures, n=4) if len(figures) > 1 else [figures[0]] * 3
    return {"median": round(median, 3), "q1": round(low, 3), "q3": round(high, 3)}


def keep(name: str, result: Mapping[str, Any], arguments: str = "") -> None:
    """Write a result to `bench/results`, with the machine and the command."""
    machine = {
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
    }
    before = trees().get("before")
    compared = f"BENCH_BEFORE=<checkout of {_commit(before)}> " if before else ""
    command = f"{compared}python -m bench.{name} {arguments}"
    sys.stdout.write(_results.keep(name, {"command": command.strip(), "machine": machine, **result}) + "\n")


def _commit(tree: Path) -> str:
    """Return the commit of a checkout."""
    told = subprocess.run(["git", "-C", tree, "rev-parse", "--short", "HEAD"], capture_output=True, check=True)
    return told.stdout.decode().strip()
