"""Capacity of one simulator on one core: `python -m bench.simulator [--clients N] [--rate N] [--seconds N]`."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import platform
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import uvloop

from bench import _results
from wa_orchestrator.simulator.device_client import DeviceClient

TICKS = os.sysconf("SC_CLK_TCK")
SESSIONS_PER_PROXY = 4
LINKING_AT_ONCE = 8
PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
START = "import sys; from wa_orchestrator.simulator.command import simulate; simulate(None, 0, int(sys.argv[1]), True)"


class Server:
    """The simulator as its own process, bound to one core."""

    def __init__(self, proxies: int) -> None:
        cores = sorted(os.sched_getaffinity(0))
        self._process = subprocess.Popen([sys.executable, "-c", START, str(proxies)], stdout=subprocess.PIPE, text=True)
        os.sched_setaffinity(self._process.pid, {cores[0]})
        assert self._process.stdout is not None
        self.ready: dict[str, Any] = json.loads(self._process.stdout.readline())

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def rss_mb(self) -> float:
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(20)


async def link_all(clients: list[DeviceClient], control: httpx.AsyncClient) -> None:
    gate = asyncio.Semaphore(LINKING_AT_ONCE)

    async def one(number: int, client: DeviceClient) -> None:
        async def scan(qr: str) -> None:
            (await control.post(f"/phones/97250{number:07d}/scan", json={"qr": qr})).raise_for_status()

        async with gate:
            await client.link(scan)
            await client.log_in(prekeys=812)  # as many as a real client publishes

    await asyncio.gather(*(one(number, client) for number, client in enumerate(clients)))


def to_friend(number: int, count: int) -> str:
    """One contact per client: devices, keys and session exist after the first message."""
    return f"97254{number % count:07d}"


def to_stranger(number: int, _count: int) -> str:
    """A new contact each time: look-up, keys and a new session for each message."""
    return f"97252{number:07d}"


async def send_at_rate(
    clients: list[DeviceClient], rate: float, seconds: float, recipient: Callable[[int, int], str]
) -> list[float]:
    """Send on a fixed schedule, not waiting for acknowledgements; return each time from due to acknowledged."""
    waits: list[float] = []
    sending: set[asyncio.Task[None]] = set()
    loop = asyncio.get_running_loop()
    start = loop.time()

    async def one(client: DeviceClient, number: int, due: float) -> None:
        error = await client.send(recipient(number, len(clients)), f"message {number}")
        assert error is None, error
        waits.append(loop.time() - due)

    for number, client in zip(range(int(rate * seconds)), itertools.cycle(clients), strict=False):
        due = start + number / rate
        if (left := due - loop.time()) > 0:
            await asyncio.sleep(left)
        task = asyncio.create_task(one(client, number, due))
        sending.add(task)
        task.add_done_callback(sending.discard)
    await asyncio.gather(*sending)
    return sorted(waits)


class Run:
    """Measure one simulator with its linked clients from outside."""

    def __init__(self, server: Server, clients: list[DeviceClient], control: httpx.AsyncClient) -> None:
        self._server = server
        self._clients = clients
        self._control = control

    async def link(self) -> dict[str, Any]:
        began, cpu = time.perf_counter(), self._server.cpu_s()
        await link_all(self._clients, self._control)
        used, took = self._server.cpu_s() - cpu, time.perf_counter() - began
        connections = (await self._control.get("/connections")).json()
        assert len(connections) == len(self._clients)
        return {"seconds": round(took, 2), "serverCpuSeconds": round(used, 2)}

    async def send(self, rate: float, seconds: float, recipient: Callable[[int, int], str]) -> dict[str, Any]:
        seen = len((await self._control.get("/arrivals")).json())
        began, cpu = time.perf_counter(), self._server.cpu_s()
        waits = await send_at_rate(self._clients, rate, seconds, recipient)
        took, used = time.perf_counter() - began, self._server.cpu_s() - cpu
        arrived = (await self._control.get("/arrivals", params={"after": seen})).json()
        assert len({entry["id"] for entry in arrived}) == len(waits) == len(arrived)
        assert all(entry["text"].startswith("message ") for entry in arrived), "every text was decrypted"
        return {
            "offeredPerSecond": rate,
            "messages": len(waits),
            "achievedPerSecond": round(len(waits) / took, 1),
            "ackMs": {name: round(waits[int(len(waits) * part)] * 1000, 1) for name, part in PERCENTILES.items()},
            "serverShareOfOneCore": round(used / took, 3),
        }


async def measure(count: int, rate: float, seconds: float) -> dict[str, Any]:
    server = Server(-(-count // SESSIONS_PER_PROXY))
    try:
        trust = ssl.create_default_context(cafile=server.ready["caFile"])
        proxies = itertools.cycle(server.ready["proxies"])
        clients = [DeviceClient(next(proxies), trust) for _ in range(count)]
        async with httpx.AsyncClient(base_url=server.ready["control"], timeout=60) as control:
            run = Run(server, clients, control)
            result: dict[str, Any] = {"clients": count, "linking": await run.link()}
            await run.send(rate / 2, count / rate * 2, to_friend)  # every client gets to know its friend
            result["toFriends"] = await run.send(rate, seconds, to_friend)
            result["toStrangers"] = await run.send(rate, seconds, to_stranger)
            result["serverRssMb"] = round(server.rss_mb(), 1)
            pictures = (await control.get("/proxies")).json()
        for client in clients:
            await client.close()
    finally:
        server.stop()
    assert max(picture["highWater"] for picture in pictures) <= SESSIONS_PER_PROXY
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=300)
    parser.add_argument("--rate", type=float, default=100)
    parser.add_argument("--seconds", type=float, default=20)
    asked = parser.parse_args()
    result = {
        "command": " ".join(["python", "-m", "bench.simulator", *sys.argv[1:]]),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "loadBefore": round(os.getloadavg()[0], 2),
        **uvloop.run(measure(asked.clients, asked.rate, asked.seconds)),
    }
    _results.keep("simulator", result)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
