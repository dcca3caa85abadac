"""A flood from one address while a simulated fleet sends: `python -m bench.flood [--seconds N] [--fleet N]`.

10,000 connections from 127.0.0.2 send half a head, a slow body or a huge head, and connect again when they are closed.
Meanwhile 127.0.0.3 reads and sends. Measured are its answers, and the gaps between arrivals of each phone at WhatsApp:
a phone whose queue is never empty must not be later than its pause.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import platform
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import uvloop

from bench import _results

FLOOD, OTHER = "127.0.0.2", "127.0.0.3"
API_KEY = "wao_bench-bench-7Kq2LxZt7mB1nWd9s"
PAUSE_MS = (1000, 2000)
HEADS = (
    b"GET /health HTTP/1.1\r\nHost: s\r\nX-Slow: ",
    b"POST /login HTTP/1.1\r\nHost: s\r\nContent-Length: 100000\r\n\r\npassword=",
    b"GET /health HTTP/1.1\r\nHost: s\r\nX-Huge: " + b"x" * 60_000,
)
START = "from wa_orchestrator.cli.main import main; main()"


async def flood(port: int, number: int) -> None:
    """Hold connections open with half-sent requests, each again as soon as it is closed."""

    async def one(n: int) -> None:
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(FLOOD, 0))
                writer.write(HEADS[n % len(HEADS)])
                await reader.read()
                writer.close()
            await asyncio.sleep(1)

    await asyncio.gather(*(one(n) for n in range(number)))


def percentile(values: list[float], share: float) -> float:
    return round(sorted(values)[min(len(values) - 1, int(len(values) * share))], 1)


class Others:
    """Clients of another address."""

    def __init__(self, url: str) -> None:
        transport = httpx.AsyncHTTPTransport(local_address=OTHER, retries=0)
        self.client = httpx.AsyncClient(transport=transport, base_url=url, headers={"X-API-Key": API_KEY}, timeout=30)

    async def measure(self, seconds: float) -> dict[str, Any]:
        took: list[float] = []
        failed = 0
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            for path in ("/health", "/api/sessions", "/login"):
                begun = time.monotonic()
                try:
                    answer = await self.client.get(path)
                    failed += answer.status_code != 200
                except httpx.HTTPError:
                    failed += 1
                took.append((time.monotonic() - begun) * 1000)
            await asyncio.sleep(0.05)
        shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
        return {
            "requests": len(took),
            "failed": failed,
            "ms": {name: percentile(took, at) for name, at in shares.items()},
        }

    async def fill(self, sessions: list[str], each: int) -> None:
        for session in sessions:
            messages = [{"to": f"97255{n:07d}", "message": f"{n}", "sessionId": session} for n in range(each)]
            (await self.client.post("/api/v1/send/batch", json={"messages": messages})).raise_for_status()


async def largest_gap_ms(world: httpx.AsyncClient, after: int, until: int) -> tuple[float, int]:
    """Return the largest gap between two arrivals of one phone, and how many messages arrived."""
    arrivals = [a for a in (await world.get("/arrivals", params={"after": after})).json() if a["n"] <= until]
    by_phone: dict[str, list[float]] = {}
    for arrival in arrivals:
        by_phone.setdefault(arrival["from"], []).append(float(arrival["at"]) * 1000)
    gaps = [later - earlier for times in by_phone.values() for earlier, later in itertools.pairwise(times)]
    return max(gaps, default=0.0), len(arrivals)


async def newest(world: httpx.AsyncClient) -> int:
    return max((int(a["n"]) for a in (await world.get("/arrivals", params={"after": 0})).json()), default=0)


async def measured(url: str, port: int, options: argparse.Namespace) -> dict[str, Any]:
    others = Others(url)
    world = (await others.client.get("/api/v1/simulator")).raise_for_status().json()
    async with httpx.AsyncClient(base_url=world["control"], timeout=60) as control:
        while True:
            sessions = (await others.client.get("/api/sessions")).json()["sessions"]
            linked = [each["sessionId"] for each in sessions if each["status"] == "connected"]
            if len(linked) == options.fleet:
                break
            await asyncio.sleep(1)
        await others.fill(linked, int(options.seconds))  # two phases of seconds, a message every 1 to 2 s and typing
        await asyncio.sleep(10)
        result: dict[str, Any] = {}
        attacker: subprocess.Popen[bytes] | None = None
        for phase in ("quiet", "flooded"):
            if phase == "flooded":
                command = (sys.executable, "-m", "bench.flood", "--attack", str(port), "--flood", str(options.flood))
                attacker = subprocess.Popen(command)  # noqa: ASYNC220 (it is quick)
                await asyncio.sleep(5)
            begin = await newest(control)
            answers = await others.measure(options.seconds)
            gap, arrived = await largest_gap_ms(control, begin, await newest(control))
            result[phase] = {"others": answers, "messages": arrived, "largestGapMs": round(gap)}
        assert attacker is not None
        assert attacker.poll() is None, "the attacker ended: the run proves nothing"
        attacker.kill()
        assert all(phase["messages"] for phase in result.values()), "nothing was sent: the run proves nothing"
    await others.client.aclose()
    return result


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--fleet", type=int, default=8)
    parser.add_argument("--flood", type=int, default=10_000)
    parser.add_argument("--attack", type=int, default=0, help="be the attacker of this port")
    options = parser.parse_args()
    if options.attack:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        uvloop.run(flood(options.attack, options.flood))
        return 0
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as home:
        pace = {"COLD_PER_DAY": "100000", "COLD_PER_MINUTE": "60", "COLD_HOURS": "00:00-00:00", "QUEUE_LIMIT": "100000"}
        pace |= {"COLD_PAUSE_MIN_MS": str(PAUSE_MS[0]), "COLD_PAUSE_MAX_MS": str(PAUSE_MS[1]), "API_KEY": API_KEY}
        command = (sys.executable, "-c", START, "up", "--simulate", "--fleet", str(options.fleet), "--port", "0")
        log = Path(home, "log")
        with log.open("wb") as output:
            server = subprocess.Popen(
                (*command, "--gateway-port", "0", "--data-dir", f"{home}/data"), stdout=output, stderr=output,
                env=os.environ | pace,
            )  # fmt: skip
        try:
            address = Path(home, "data", "server.json")
            while not address.exists():
                time.sleep(0.2)
            url = str(json.loads(address.read_text())["url"])
            result = uvloop.run(measured(url, int(url.rpartition(":")[2]), options))
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(60)
    late_ms = result["flooded"]["largestGapMs"] - result["quiet"]["largestGapMs"]
    holds = result["flooded"]["others"]["ms"]["p99"] < 1000 and late_ms <= PAUSE_MS[1]
    report = {
        "command": "python -m bench.flood",
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "loadBefore": round(load, 2),
        "connections": options.flood,
        "fleet": options.fleet,
        "pauseMs": PAUSE_MS,
        **result,
        "laterThanQuietMs": late_ms,
        "holds": holds and not result["flooded"]["others"]["failed"],
    }
    _results.keep("flood", report)
    print(json.dumps(report, indent=2))
    return 0 if report["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
