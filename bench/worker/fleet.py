"""A fleet of one kind: linked, measured, restarted, measured again."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.worker.figures import cpu_s, mean, private_mb, pss_mb
from bench.worker.kinds import Kind, Place, Run
from wa_orchestrator.simulator.world import World

AT_ONCE = 4
ALONE_RUNS = 5

_numbers = itertools.count(1)


class Fleet:
    """Processes of one kind and the accounts they hold."""

    def __init__(self, kind: Kind, world: World, directory: Path) -> None:
        self._kind = kind
        self._world = world
        self._directory = directory
        directory.mkdir(parents=True)
        self._runs: dict[str, Run] = {}
        self.places: list[Place] = []

    def _new_place(self) -> Place:
        number = next(_numbers)
        proxies = self._world.proxies
        place = Place(
            f"bench_{number}",
            f"97250{number:07d}",
            self._directory / str(number),
            proxies[number % len(proxies)],
            self._world.ca_file,
        )
        self.places.append(place)
        return place

    def pid(self, place: Place) -> int:
        return self._runs[place.session_id].pid

    async def link(self, count: int) -> dict[str, Any]:
        """Link accounts until there are `count`, a few at once."""
        new = [self._new_place() for _ in range(count - len(self.places))]
        cpu = await self._few_at_once(new, self.link_one)
        return {"cpuSecondsToOpen": cpu}

    async def link_one(self, place: Place) -> float:
        run = self._runs[place.session_id] = await self._kind.start(place)
        await self._world.whatsapp.scan(place.phone, await run.qr())
        await run.opened()
        return cpu_s(run.pid)

    async def restart(self) -> dict[str, Any]:
        await self.stop()
        cpu = await self._few_at_once(self.places, self.start_one)
        return {"cpuSecondsToOpen": cpu}

    async def start_one(self, place: Place) -> float:
        run = self._runs[place.session_id] = await self._kind.start(place)
        await run.opened()
        return cpu_s(run.pid)

    async def _few_at_once(self, places: list[Place], work: Callable[[Place], Awaitable[float]]) -> float:
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(place: Place) -> float:
            async with gate:
                return await work(place)

        return round(mean(list(await asyncio.gather(*(one(place) for place in places)))), 3)

    async def idle(self, settle_s: float, watch_s: float) -> dict[str, Any]:
        """Let the fleet settle, then measure its CPU, and its memory at the end."""
        await asyncio.sleep(settle_s)
        pids = [run.pid for run in self._runs.values()]
        began, used = time.perf_counter(), sum(map(cpu_s, pids))
        await asyncio.sleep(watch_s)
        share = (sum(map(cpu_s, pids)) - used) / (time.perf_counter() - began)
        return {
            "pssMb": round(mean([pss_mb(pid) for pid in pids]), 2),
            "privateDirtyMb": round(mean([private_mb(pid) for pid in pids]), 2),
            "idleCpuPercentOfACore": round(100 * share / len(pids), 4),
        }

    async def stop(self) -> None:
        await asyncio.gather(*(run.stop() for run in self._runs.values()))
        self._runs = {}

    async def alone(self) -> dict[str, Any]:
        """Measure one process with nothing else running: the best of a few, because the machine may be shared."""
        [place, *_] = self.places
        opens, cpus, qrs = [], [], []
        for _ in range(ALONE_RUNS):
            began = time.perf_counter()
            cpus.append(await self.start_one(place))
            opens.append(time.perf_counter() - began)
            await self.stop()
        for _ in range(ALONE_RUNS):
            began = time.perf_counter()
            run = await self._kind.start(self._new_place())
            await run.qr()
            qrs.append(time.perf_counter() - began)
            await run.stop()
            self.places.pop()
        return {
            "restartToOpenSeconds": round(min(opens), 3),
            "restartToOpenCpuSeconds": round(min(cpus), 3),
            "spawnToQrSeconds": round(min(qrs), 3),
        }
