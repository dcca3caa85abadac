"""The machine loses its power: with our settings of Redis nothing is lost, and nothing is sent twice."""

import asyncio
import itertools
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis.exceptions import RedisError

from tests.e2e.product import Product, product
from tests.redis_server import DURABLE
from tests.waiting import until

SESSION, PHONE = "north", "972501100701"
SERVICES = ("orchestrator", "gateway", "dispatcher-1", "dispatcher-2")
SETTINGS = {"TIME_SCALE": "20", "COLD_PER_DAY": "5000", "COLD_PER_MINUTE": "60", "COLD_HOURS": "00:00-00:00"}
HAD = ("sent", "delivered", "read")
_people = itertools.count(972527000000 + os.getpid() % 100 * 1000)

pytestmark = [pytest.mark.slow, pytest.mark.asyncio]


@dataclass
class Disk:
    """What of Redis' append-only file has left the kernel's memory, by Redis' own word."""

    running: Product
    bytes: int = 0

    @property
    def _file(self) -> Path:
        [found] = self.running.home.glob("appendonlydir/*.incr.aof")
        return found

    async def look(self) -> None:
        """Note the size, if Redis says that everything until now is on disk."""
        size = self._file.stat().st_size
        with suppress(RedisError, OSError):
            await self.running.redis.set("test:probe", size)
            on_disk, _ = await self.running.redis.waitaof(1, 0, 1)
            if on_disk:
                self.bytes = size

    async def watch(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(0.01)

    def lose(self) -> None:
        """Forget what was not on disk."""
        os.truncate(self._file, self.bytes)


@asynccontextmanager
async def watched(running: Product) -> AsyncIterator[Disk]:
    """The disk, looked at all the time."""
    disk = Disk(running)
    watching = asyncio.create_task(disk.watch())
    try:
        yield disk
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


async def cut_power(running: Product, disk: Disk) -> None:
    """Every process ends, and with Redis what was on its way to the disk. Then the machine starts again."""
    await disk.look()
    running.parts["redis"].end(signal.SIGKILL)  # first: from here on nobody can write
    for name in SERVICES:
        running.parts[name].end(signal.SIGKILL)
    for pid in running.worker_pids().values():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    disk.lose()
    running.parts["redis"].start()
    await until(running.redis_answers, "Redis answers")
    for name in SERVICES:
        running.parts[name].start()

    async def gateway_answers() -> bool:
        with suppress(httpx.HTTPError):
            return (await running.door.get("/health")).is_success
        return False

    await until(gateway_answers, "the gateway answers")
    await until(lambda: running.is_connected(SESSION), "the session is connected")


async def send(running: Product) -> tuple[str, str]:
    """Send to somebody new: the message's id, and the recipient."""
    person = str(next(_people))
    body = {"to": person, "sessionId": SESSION, "message": "We open at nine."}
    answer = await running.door.post("/api/v1/send", json=body)
    assert answer.status_code == httpx.codes.ACCEPTED, answer.text
    return str(answer.json()["messageId"]), person


async def status(running: Product, message: str) -> str:
    """The status of a message, or nothing if nobody knows it."""
    answer = await running.door.get(f"/api/v1/messages/{message}")
    return "" if answer.status_code == httpx.codes.NOT_FOUND else str(answer.raise_for_status().json()["status"])


async def arrivals(running: Product, person: str) -> list[dict[str, Any]]:
    return [each for each in await running.arrivals() if each["to"] == person]


async def until_sent(running: Product, message: str) -> None:
    async def is_sent() -> bool:
        return await status(running, message) in HAD

    await until(is_sent, f"{message} is sent")


@dataclass(frozen=True)
class Loss:
    """What a power cut did to a message that was sent just before, and to one that was accepted just before."""

    is_sent_again: bool
    is_forgotten: bool


async def one_cut(running: Product, disk: Disk) -> Loss:
    sent, known_person = await send(running)
    await until_sent(running, sent)
    accepted, person = await send(running)
    await cut_power(running, disk)
    is_forgotten = not await status(running, accepted)
    if await status(running, sent):
        await until_sent(running, sent)
    if not is_forgotten:
        await until_sent(running, accepted)
        assert [each["repeat"] for each in await arrivals(running, person)][:1] == [False]
    seen = await arrivals(running, known_person)
    assert len({each["id"] for each in seen}) == 1, "the phone of a recipient shows one id once"
    return Loss(is_sent_again=len(seen) > 1, is_forgotten=is_forgotten)


def log_of(running: Product) -> str:
    return (running.home / "orchestrator.log").read_text()


async def test_with_our_settings_a_power_cut_loses_nothing_and_sends_nothing_twice() -> None:
    async with product(proxies=1, redis_options=DURABLE, **SETTINGS) as running, watched(running) as disk:
        await running.link(SESSION, PHONE)
        for _ in range(3):
            assert await one_cut(running, disk) == Loss(is_sent_again=False, is_forgotten=False)
        assert "redis.not_durable" not in log_of(running)
