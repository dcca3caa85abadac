"""Memory growth of a worker: thousands of messages, and then half as many again."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from tests.worker.standin import StandIn

from bench.worker.figures import cpu_s, private_mb, pss_mb
from bench.worker.fleet import Fleet
from bench.worker.kinds import Place
from wa_orchestrator.simulator.world import World

PEOPLE = 200
REPORTED_S = 120.0
#: Longer than the 20 s after which a worker that rests looks whether it has grown.
REST_S = 60.0


@dataclass
class Growth:
    """One worker under load, measured when it is idle."""

    world: World
    server: StandIn
    fleet: Fleet
    place: Place

    async def measure(self, sent: int, received: int) -> dict[str, Any]:
        """Measure it fresh, after the whole load, and after half of it again."""
        steps = [await self._rested(0.0)]
        for part in (1, 2):
            cpu = await self._load(sent // part, received // part)
            steps.append(await self._rested(cpu * part / (sent + received)))
        private = [step["privateDirtyMb"] for step in steps]
        return {
            "sent": sent,
            "received": received,
            "people": PEOPLE,
            "steps": steps,
            "grownMb": round(private[1] - private[0], 2),
            "grownFurtherMb": round(private[-1] - private[1], 2),
        }

    async def _load(self, sent: int, received: int) -> float:
        pid = self.fleet.pid(self.place)
        before = cpu_s(pid)
        await asyncio.gather(self._send(sent), self._receive(received))
        return cpu_s(pid) - before

    async def _send(self, count: int) -> None:
        station = self.server.station(self.place.session_id)
        acknowledged = len(station.acks)
        for number in range(count):
            await self.server.send(self.place.session_id, person(number), text=f"message {number} " + "word " * 20)
        await self.server.until(lambda: len(station.acks) >= acknowledged + count, timeout=count)
        assert not station.nacks, station.nacks[0]

    async def _receive(self, count: int) -> None:
        station = self.server.station(self.place.session_id)

        def told() -> int:
            return sum(event["type"] == "MESSAGE_RECEIVED" for event in station.events)

        before = told()
        for number in range(count):
            await self.world.whatsapp.send_text(person(number), self.place.phone, f"answer {number}")
            await asyncio.sleep(0)
        await self.server.until(lambda: told() >= before + count, timeout=REPORTED_S + count)

    async def _rested(self, cpu_per_message: float) -> dict[str, Any]:
        pid = self.fleet.pid(self.place)
        began = time.perf_counter()
        await asyncio.sleep(REST_S)
        return {
            "restedSeconds": round(time.perf_counter() - began),
            "pssMb": round(pss_mb(pid), 2),
            "privateDirtyMb": round(private_mb(pid), 2),
            "cpuMsPerMessage": round(1000 * cpu_per_message, 1),
        }


def person(number: int) -> str:
    return f"97254{number % PEOPLE:07d}"
