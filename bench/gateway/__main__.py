"""Run the benchmark: `python -m bench.gateway`. Needs `wrk`; the peers are installed on the first run.

`OTHER=<checkout>` compares the gateway with that of another checkout of this repository instead of with its peers.
"""

import asyncio
import contextlib
import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from redis import Redis

from bench import _results
from wa_orchestrator.store.engine.embedded_redis import EmbeddedRedis, find_program
from wa_orchestrator.store.engine.scripts import FILES, read_sources

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NODE = ROOT / ".venv/node/bin/node"
NPM = ROOT / ".venv/node/lib/node_modules/npm/bin/npm-cli.js"
API_KEY = "wao_bench-key-3f9a7c21d8e64b05"
SESSIONS = 200
#: Load by other processes; above 1 the rates are too low and only their ratios are meaningful.
LOAD_BEFORE = os.getloadavg()[0]
ROUNDS = int(os.environ.get("ROUNDS", "8"))
SECONDS = int(os.environ.get("SECONDS_EACH", "2"))
#: With few connections all servers wait for the disk most of the time; with many the CPU is the limit.
CONNECTIONS = [int(each) for each in os.environ.get("CONNECTIONS", "64,256").split(",")]
PYTHON = [sys.executable, "-m", "bench.gateway.serve"]
EXPRESS, FASTIFY = [str(NODE), "express.mjs"], [str(NODE), "fastify.mjs"]
SAME, BARE = {"NAMED": "1", "ADMIT": "admit_messages.lua"}, {"NAMED": "1"}
#: The peers with the same Lua call as ours (Redis then does the same for all), and with a minimal one.
SERVERS: dict[str, tuple[list[str], dict[str, str]]] = {
    "gateway": (PYTHON, {"NAMED": "1"}),
    "express": (EXPRESS, SAME),
    "fastify": (FASTIFY, SAME),
    "gateway, sender chosen": (PYTHON, {"NAMED": "0"}),
    "gateway, hot path off": (PYTHON, {"NAMED": "1", "HOT_PATH": "0"}),
    "gateway, ordinary HTTP": (PYTHON, {"NAMED": "1", "OWN_HTTP": "0"}),
    "express, bare Lua": (EXPRESS, BARE),
    "fastify, bare Lua": (FASTIFY, BARE),
    "fastify, auto-pipelining": (FASTIFY, {**SAME, "AUTO_PIPELINING": "1"}),
}
#: The settings in it change the load.
RAN = f"ROUNDS={ROUNDS} SECONDS_EACH={SECONDS} python -m bench.gateway"
LOADS = {"sender named": "1", "sender chosen": "0"}
OTHER = os.environ.get("OTHER")
if OTHER:
    SERVERS = {
        f"{which}, {load}": (PYTHON, {"NAMED": named, "PYTHONPATH": path})
        for load, named in LOADS.items()
        for which, path in (("this", f"{ROOT}/src:{ROOT}"), ("other", f"{OTHER}/src:{OTHER}"))
    }
Results = dict[str, list[dict[str, Any]]]
"""The figures of each server, one entry per turn."""
if chosen := os.environ.get("ONLY"):  # to try some of them; the report needs all
    SERVERS = {name: each for name, each in SERVERS.items() if name in chosen.split(";")}


def main() -> None:
    """Measure all servers in turn, several rounds, and write the medians."""
    if shutil.which("wrk") is None:
        sys.exit("wrk is missing: apt-get install wrk")
    if any(command is not PYTHON for command, _ in SERVERS.values()):
        install_peers()
    with tempfile.TemporaryDirectory(prefix="bench-gw-") as directory:
        results = asyncio.run(measure(Path(directory)))
    if os.environ.get("ONLY"):
        return
    report = summary(results)
    _results.keep("gateway_before_after" if OTHER else "gateway", report)
    print(json.dumps(report, indent=2))


def install_peers() -> None:
    """Install Express, Fastify and ioredis by their lock."""
    peers = HERE / "peers"
    if not (peers / "node_modules/fastify").is_dir():
        environment = {**os.environ, "PATH": f"{NODE.parent}:{os.environ['PATH']}"}
        options = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run([NODE, NPM, *options], cwd=peers, env=environment, check=True)


async def measure(directory: Path) -> dict[int, Results]:
    """Load the servers in short turns over one durable Redis, so that a slow minute affects all of them."""
    results: dict[int, Results] = {connections: {name: [] for name in SERVERS} for connections in CONNECTIONS}
    async with EmbeddedRedis(directory) as redis:
        path, redis_pid = redis.url.rpartition("@")[2], await redis.pid()
        with Redis.from_url(redis.url) as own:
            own.config_set("requirepass", "")  # the peers know a socket and no password
        seed(path)
        with contextlib.ExitStack() as stack:
            running = {name: stack.enter_context(serving(name, path, directory)) for name in SERVERS}
            # Every other round runs backwards, so that none always follows the same neighbour.
            rounds = ((number, list(SERVERS)[:: 1 if number % 2 else -1]) for number in range(-1, ROUNDS))
            turns = ((number, each, name) for number, names in rounds for each, name in product(CONNECTIONS, names))
            for number, connections, name in turns:
                seed(path)
                figures = await asyncio.to_thread(one_turn, running[name], redis_pid, connections)
                if number >= 0:  # the first round is a warm-up
                    results[connections][name].append(figures)
                    print(f"{connections} connections, {name}: {figures}", file=sys.stderr)
    return results


def seed(path: str) -> None:
    """Empty Redis and create the sessions."""
    redis = Redis(unix_socket_path=path, decode_responses=True)
    redis.flushall()
    now_ms = int(time.time() * 1000)
    for number in range(1, SESSIONS + 1):
        name = f"worker_{number}"
        known = {
            "id": name, "status": "connected", "phone": f"97250{number:07d}", "label": "", "version": 1, "epoch": 1,
            "first_connected_at": now_ms - 40 * 86_400_000,
        }  # fmt: skip
        redis.hset(f"session:{name}", mapping=known)
        redis.sadd("sessions:all", name)
    redis.close()


@dataclass(frozen=True)
class Running:
    """A server that listens."""

    pid: int
    port: int
    environment: dict[str, str]


@contextlib.contextmanager
def serving(name: str, path: str, directory: Path) -> Iterator[Running]:
    """Start a server and wait until it listens."""
    command, extra = SERVERS[name]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT), **extra, "PORT": str(port), "REDIS_SOCKET": path, "API_KEY": API_KEY,
        "DATA_DIR": str(directory / "data"), "SESSIONS": str(SESSIONS), "NODE_ENV": "production",
    }  # fmt: skip
    if "ADMIT" in extra:
        script = directory / extra["ADMIT"]
        script.write_text(f"{FILES['_clock'].read_text()}\n{read_sources()['admit_messages']}")
        environment["ADMIT"] = str(script)
    server = subprocess.Popen(command, cwd=HERE / "peers", env=environment, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while not listens(port):
            if time.monotonic() > deadline or server.poll() is not None:
                raise RuntimeError(f"{name} does not accept connections")
            time.sleep(0.05)
        yield Running(server.pid, port, environment)
    finally:
        server.kill()
        server.wait()


def listens(port: int) -> bool:
    """Whether the port accepts connections."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def one_turn(server: Running, redis_pid: int, connections: int) -> dict[str, Any]:
    """Load a server for one turn; return throughput, latencies and CPU time."""
    before_s, redis_before_s = cpu_s(server.pid), cpu_s(redis_pid)
    figures = load(server.port, SECONDS, server.environment, connections)
    figures["cpu_us_each"] = round((cpu_s(server.pid) - before_s) / figures["requests"] * 1e6)
    figures["redis_cpu_us_each"] = round((cpu_s(redis_pid) - redis_before_s) / figures["requests"] * 1e6)
    return figures


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process; unlike the rate it depends little on what else the machine does."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load(port: int, seconds: int, environment: dict[str, str], connections: int = 64) -> dict[str, Any]:
    """Load a server with wrk and return its figures."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "20s", "-s", str(HERE / "load.lua")]
    said = subprocess.run(
        [*command, f"http://127.0.0.1:{port}"], env=environment, capture_output=True, text=True, check=True
    ).stdout
    raw = json.loads(next(line for line in said.splitlines() if line.startswith("RESULT ")).removeprefix("RESULT "))
    if raw["refused"] or raw["lost"]:
        raise RuntimeError(f"of {raw['requests']} requests {raw['refused']} were refused and {raw['lost']} lost")
    return {
        "requests": raw["requests"],
        "per_second": round(raw["requests"] / raw["microseconds"] * 1e6),
        "p50_ms": raw["p50_us"] / 1000,
        "p99_ms": raw["p99_us"] / 1000,
    }


def summary(results: dict[int, Results]) -> dict[str, Any]:
    """Return the machine, the command, and the figures for each load."""
    return {
        "command": (f"OTHER=<checkout of {commit(Path(OTHER))}> " if OTHER else "") + RAN,
        "commit": commit(ROOT),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, load average before the run {LOAD_BEFORE:.1f}",
        "redis": f"{find_program().version}, appendonly yes, appendfsync always, Unix socket",
        "load": f"wrk, 1 thread, {ROUNDS} turns of {SECONDS} s each, {SESSIONS} sessions",
        "connections": {connections: compared(each) for connections, each in results.items()},
    }


def commit(checkout: Path) -> str:
    """Return the commit of a checkout."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True).stdout.strip()


def compared(results: Results) -> dict[str, Any]:
    """Return medians over the rounds, and ratios within the rounds."""
    medians = {
        name: {figure: statistics.median(each[figure] for each in rounds) for figure in rounds[0]}
        for name, rounds in results.items()
    }
    rates = {name: [each["per_second"] for each in rounds] for name, rounds in results.items()}
    if OTHER:
        return {"medians": medians, "this_to_other": {load: ratios(results, load) for load in LOADS}, "turns": rates}
    return {
        "medians": medians,
        "gateway_in_the_same_turn_as": {
            name: round(
                statistics.median(ours / theirs for ours, theirs in zip(rates["gateway"], each, strict=True)), 2
            )
            for name, each in rates.items()
            if name != "gateway"
        },
        "turns": rates,
    }


def ratios(results: Results, load: str) -> dict[str, float]:
    """Return the medians of this checkout's figures divided by the other's of the same round."""
    pairs = list(zip(results[f"this, {load}"], results[f"other, {load}"], strict=True))
    return {
        figure: round(statistics.median(this[figure] / other[figure] for this, other in pairs), 3)
        for figure in ("per_second", "p50_ms", "cpu_us_each", "redis_cpu_us_each")
    }


if __name__ == "__main__":
    main()
