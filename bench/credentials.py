"""What CREDENTIALS=server costs: messages per second and CPU per message of a worker, with and without it.

One worker sends as fast as it can, without pace and typing, to a stand-in for the server.
`python -m bench.credentials`.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from tests.worker import harness
from tests.worker.harness import Rig, new_phone

from bench._results import keep
from bench.worker.figures import cpu_s, mean
from wa_orchestrator.simulator.world import World

MESSAGES = 60
ROUNDS = 3
KEY = "A" * 43 + "="


async def run(rig: Rig, **settings: str) -> dict[str, float]:
    """Send messages one after another; the first ones, which make a chat, do not count."""
    session, friend = rig.session(AUTH_KEY=KEY, TYPING_MAX_MS="0", LOG_LEVEL="warn", **settings), new_phone()
    await session.link()
    for number in range(5):
        await rig.server.acked(await session.say(friend, f"warm-up {number}"))
    station, pid = session.station, session.worker.process.pid
    shipped = len(station.shipped)
    began, cpu = time.perf_counter(), cpu_s(pid)
    last = [await session.say(friend, f"message {number}") for number in range(MESSAGES)][-1]
    await rig.server.acked(last)
    took_s, cpu = time.perf_counter() - began, cpu_s(pid) - cpu
    figures = {"messages_per_s": MESSAGES / took_s, "cpu_ms_per_message": cpu * 1000 / MESSAGES}
    if station.stored is not None:
        figures["requests_per_message"] = (len(station.shipped) - shipped) / MESSAGES
        figures["copy_bytes"] = float(len(station.stored[2][0]))
    await session.worker.terminate()
    return figures


async def main() -> None:
    machine = {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    found: dict[str, list[Mapping[str, float]]] = {"local": [], "server": []}
    with tempfile.TemporaryDirectory() as home:
        async with World(proxies=1) as world, harness.rig(world, Path(home)) as rig:
            for _ in range(ROUNDS):  # in turns: the machine may have other work
                for place, rounds in found.items():
                    rounds.append(await run(rig, CREDENTIALS=place))
    result = {
        place: {name: round(mean([each[name] for each in rounds]), 1) for name in rounds[0]}
        for place, rounds in found.items()
    }
    sys.stdout.write(keep("credentials", {"machine": machine, "messages": MESSAGES, "rounds": ROUNDS, **result}) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
