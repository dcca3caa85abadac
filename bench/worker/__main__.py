"""Compares workers with plain Baileys processes: `python -m bench.worker [--workers N] [--idle S] [--sent N]`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import uvloop
from tests.worker.standin import StandIn

from bench import _results
from bench.worker.fleet import AT_ONCE, Fleet
from bench.worker.growth import Growth
from bench.worker.kinds import Kind, Plain, Worker
from wa_orchestrator.runner.node_command import ENVIRONMENT, node_binary, worker_command
from wa_orchestrator.simulator.world import World

SESSIONS_PER_PROXY = 4
#: A worker tidies up this long after it has opened its connection; only then does the watch begin.
SETTLE_S = 20
MEMORY_MB = 256

#: What was promised, of the worker's figures.
MOST = {
    ("linked", "pssMb"): 25.0,
    ("restarted", "pssMb"): 22.0,
    ("restarted", "idleCpuPercentOfACore"): 0.05,
    ("alone", "restartToOpenCpuSeconds"): 0.35,
    ("alone", "restartToOpenSeconds"): 1.0,
    ("alone", "spawnToQrSeconds"): 1.0,
    ("growth", "grownMb"): 10.0,
    ("growth", "grownFurtherMb"): 2.0,
}


async def measure_kind(kind: Kind, world: World, directory: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """Measure a fleet just linked, the same restarted, and one process alone."""
    fleet = Fleet(kind, world, directory / kind.name)
    linked = await fleet.link(asked.workers)
    linked |= await fleet.idle(SETTLE_S, asked.idle)
    restarted = await fleet.restart()
    restarted |= await fleet.idle(SETTLE_S, asked.idle)
    await fleet.stop()
    print(kind.name, linked, restarted, file=sys.stderr)
    return {"linked": linked, "restarted": restarted, "alone": await fleet.alone()}


async def measure_growth(world: World, server: StandIn, directory: Path, asked: argparse.Namespace) -> dict[str, Any]:
    kind = Worker(server, "growth", TYPING_MAX_MS="0", SETTLE_AFTER_MS=str(SETTLE_S * 500))
    fleet = Fleet(kind, world, directory / kind.name)
    await fleet.link(1)
    await fleet.restart()
    growth = Growth(world, server, fleet, fleet.places[0])
    figures = await growth.measure(asked.sent, asked.sent // 4)
    await fleet.stop()
    return figures


async def measure(asked: argparse.Namespace) -> dict[str, Any]:
    proxies = -(-asked.workers // SESSIONS_PER_PROXY) + 1
    with tempfile.TemporaryDirectory(prefix="bench-worker-") as name:
        directory = Path(name)
        async with World(proxies=proxies) as world, StandIn() as server:
            plain = await measure_kind(Plain(), world, directory, asked)
            ours = Worker(server, SETTLE_AFTER_MS=str(SETTLE_S * 500))
            worker = await measure_kind(ours, world, directory, asked)
            worker["growth"] = await measure_growth(world, server, directory, asked)
    return {
        "worker": worker,
        "plain": plain,
        "ratioOfPss": {
            state: round(worker[state]["pssMb"] / plain[state]["pssMb"], 3) for state in ("linked", "restarted")
        },
        "broken": [f"{part}.{name}" for (part, name), most in MOST.items() if worker[part][name] > most],
    }


def setting(asked: argparse.Namespace) -> dict[str, Any]:
    """Return the machine and the parameters."""
    node, *rest = worker_command(None, MEMORY_MB)
    version = subprocess.run([node_binary(), "--version"], check=True, capture_output=True, text=True).stdout.strip()
    return {
        "command": " ".join(["python", "-m", "bench.worker", *sys.argv[1:]]),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "node": version,
        "workerCommand": [Path(node).name, *(part if part.startswith("--") else Path(part).name for part in rest)],
        "workerEnvironment": ENVIRONMENT,
        "workers": asked.workers,
        "startedAtOnce": AT_ONCE,
        "settledSeconds": SETTLE_S,
        "watchedSeconds": asked.idle,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=30)
    parser.add_argument("--idle", type=float, default=60)
    parser.add_argument("--sent", type=int, default=2_000)
    asked = parser.parse_args()
    result = {**setting(asked), **uvloop.run(measure(asked))}
    _results.keep("worker", result)
    print(json.dumps(result, indent=2))
    return len(result["broken"])


if __name__ == "__main__":
    sys.exit(main())
