"""Nothing is lost, sent twice, reordered or hurried, whatever dies: judged by ledgers outside the product.

Workers here are small and speak the real HTTP; they die before sending, after sending, or answer too late. Dispatchers
die, Redis is killed and comes back. WhatsApp is a list of arrivals.
"""

import asyncio
import contextlib
import os
import random
import signal
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
from redis.asyncio import BlockingConnectionPool, Redis
from redis.exceptions import RedisError

from tests.chaos import Record
from tests.dispatcher.scenario import Scenario
from tests.messages.conftest import secured
from tests.waiting import until
from wa_orchestrator.context import Context
from wa_orchestrator.dispatcher.dispatcher import Dispatcher
from wa_orchestrator.orchestrator.api.workers import outbox
from wa_orchestrator.orchestrator.workers import tokens
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.engine.embedded_redis import EmbeddedRedis
from wa_orchestrator.store.engine.line_client import LineClient
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import admission
from wa_orchestrator.store.records import MessageChanges
from wa_orchestrator.web.app import make_app

PHONES = 14
EACH = 12
SCALE = 10.0
#: Three attempts in a row whose ack came too late: on a busy machine the scaled seconds are short.
MOST_UNCONFIRMED = 3
ENDED = ("sent", "delivered", "read", "failed", "unknown", "expired", "cancelled")
ALL_DAY = '{"opens": "00:00", "closes": "00:00", "per_day": 100000, "per_minute": 1000}'


@dataclass(frozen=True)
class Arrival:
    """What WhatsApp saw."""

    at_ms: float
    phone: str
    message: str
    whatsapp_id: str
    to: str
    pause_ms: int


@dataclass
class World:
    """The ledgers, and the dice that decide who dies."""

    scenario: Scenario
    client: httpx.AsyncClient
    dice: random.Random = field(default_factory=lambda: random.Random(int(os.environ.get("CHAOS_SEED", "11"))))
    told: dict[str, tuple[int, str]] = field(default_factory=dict)
    arrivals: list[Arrival] = field(default_factory=list)
    crashes: int = 0
    fenced: int = 0
    stale_successes: int = 0
    zombies: list[asyncio.Task[None]] = field(default_factory=list)
    unbalanced: list[dict[str, str]] = field(default_factory=list)

    async def call(self, session: str, epoch: int, path: str, body: object) -> httpx.Response:
        token = tokens.mint(self.scenario.settings, session, epoch).token
        headers = {"Authorization": f"Bearer {token}", "X-Epoch": str(epoch)}
        return await self.client.post(f"/api/worker/sessions/{session}/outbox/{path}", json=body, headers=headers)

    async def worker(self, session: str, phone: str) -> None:
        """Workers of one session, one after another; each may die at any point."""
        while True:
            epoch = self.scenario.epochs[session]
            answer = await self.call(session, epoch, "claim", {"waitMs": 1000})
            if answer.status_code == 200:
                await self.handle(session, phone, epoch, answer.json())
            elif answer.status_code >= 400:
                await asyncio.sleep(0.02)

    async def handle(self, session: str, phone: str, epoch: int, message: dict[str, Any]) -> None:
        fate = self.dice.random()
        if fate < 0.05:  # dies before it sends
            self.crashes += 1
            await self.restart(session, phone, epoch)
            return
        lease_s = self.scenario.settings.scaled(self.scenario.settings.lease_ms) / 1000
        if fate < 0.09:  # sends in the last moment of its lease, and dies
            self.crashes += 1
            await asyncio.sleep(lease_s - 0.02)
            await self.arrive(phone, message)
            return
        await self.arrive(phone, message)
        if fate < 0.16:  # dies before it can tell
            self.crashes += 1
            if fate < 0.14:
                await self.restart(session, phone, epoch)
            return
        if fate < 0.19:  # tells it when its lease is long over
            self.crashes += 1
            await asyncio.sleep(lease_s + 0.1)
        body = {"whatsappId": message["whatsappId"], "timestamp": int(time.time() * 1000)}
        for _ in range(500):
            if (await self.call(session, epoch, f"{message['messageId']}/ack", body)).status_code < 500:
                return
            await asyncio.sleep(0.02)

    async def arrive(self, phone: str, message: dict[str, Any]) -> None:
        while True:
            with contextlib.suppress(RedisError):
                pause: Any = await self.scenario.scripts.redis.hget(keys.message(message["messageId"]), "pause_ms")
                break
            await asyncio.sleep(0.02)
        at_ms = time.monotonic() * 1000
        self.arrivals.append(
            Arrival(at_ms, phone, message["messageId"], message["whatsappId"], message["to"], int(pause))
        )

    async def restart(self, session: str, phone: str, old: int) -> None:
        """A new worker is started; the old one, if it still lives, gets nothing any more."""
        while True:
            with contextlib.suppress(RedisError, AssertionError):
                await self.scenario.register(session, phone)
                break
            await asyncio.sleep(0.02)
        self.zombies.append(asyncio.create_task(self.haunt(session, old)))

    async def haunt(self, session: str, old: int) -> None:
        """The old worker was not dead at all."""
        for path, body in (("claim", {}), ("m_x/nack", {"code": "408", "error": ""}), ("m_x/renew", {})):
            answer = await self.call(session, old, path, body)
            self.fenced += answer.status_code == 409
            self.stale_successes += answer.status_code == 200

    async def client_sends(self, number: int, session: str, phone: str) -> None:
        """A client that repeats its request until it is told something; the same key gives the same message."""
        to = f"9725{phone[-2:]}{number % 4:05d}"
        name = f"m_{int(phone[-3:]) * 10_000 + number:018x}"
        fields = MessageChanges(kind="text", body=f'{{"kind": "text", "text": "{phone} {number}"}}')
        key = admission.Idempotency("client", name, "print")
        new = admission.NewMessage(name, f"3EB0{name[2:].upper()}", phone, session, to, fields=fields)
        twice = self.dice.random() < 0.2
        answers: list[object] = []
        while len(answers) < 1 + twice:
            with contextlib.suppress(RedisError):
                answers.append(await admission.accept(self.scenario.scripts, new, admission.Room(10**6, 10**6, 0), key))
                continue
            await asyncio.sleep(0.02)
        self.told[name] = (number, to)
        assert not twice or isinstance(answers[1], admission.Replayed)

    async def dispatchers(self, context: Context) -> None:
        """Two at a time; one of them is killed again and again."""
        steady = asyncio.create_task(Dispatcher(context).run())
        try:
            while True:
                mortal = asyncio.create_task(Dispatcher(context).run())
                await asyncio.sleep(self.dice.uniform(0.1, 0.4))
                while not mortal.done():
                    mortal.cancel()
                    await asyncio.wait({mortal}, timeout=0.05)
        finally:
            steady.cancel()

    async def auditor(self) -> None:
        """I12 at many instants: nothing is between two places."""
        while True:
            with contextlib.suppress(RedisError):
                counts: Any = await self.scenario.scripts.redis.hgetall(keys.COUNTS)
                places = sum(int(value) for name, value in counts.items() if name != "accepted")
                if counts and places != int(counts["accepted"]):
                    self.unbalanced.append(counts)
            await asyncio.sleep(0.03)

    async def ended(self) -> bool:
        try:
            counts = await self.scenario.scripts.redis.hgetall(keys.COUNTS)
        except RedisError:
            return False
        return len(self.told) == PHONES * EACH == sum(int(counts.get(name, 0)) for name in ENDED)


async def test_whatever_dies_nothing_is_lost_doubled_reordered_or_hurried(
    tmp_path: Path, record_property: Record
) -> None:
    server = EmbeddedRedis(tmp_path)
    await server.start()
    pool = BlockingConnectionPool.from_url(server.url, decode_responses=True, max_connections=60, timeout=5)
    redis = LineClient.from_pool(pool)
    # Ten times as fast: pauses of 200 to 400 ms, leases of 0.6 s.
    settings = secured(data_dir=tmp_path, time_scale=SCALE, lease_ms=6_000, ack_timeout_ms=5_000)
    scenario = Scenario(Scripts(redis), settings)
    context = scenario.context
    transport = httpx.ASGITransport(app=make_app(context, [outbox.WorkerOutboxRoutes(context)]))
    async with httpx.AsyncClient(transport=transport, base_url="http://test", timeout=30) as client:
        world = World(scenario, client)
        fleet = {f"w{n}": f"972500000{n:03d}" for n in range(PHONES)}
        for session, phone in fleet.items():
            await scenario.connect(session, phone, limits=ALL_DAY, first_connected_at=1)
        tasks = [asyncio.create_task(world.worker(*each)) for each in fleet.items()]
        tasks += [asyncio.create_task(world.dispatchers(context)), asyncio.create_task(world.auditor())]
        tasks.append(asyncio.create_task(_kill_redis(redis, world)))
        for number in range(EACH):
            for session, phone in fleet.items():
                await world.client_sends(number, session, phone)
        try:
            await until(world.ended, "every message has ended", 120)
        finally:
            while any(not task.done() for task in tasks):
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks, timeout=0.1)
        await asyncio.gather(*world.zombies)
        ended = await records.messages(scenario.scripts, list(world.told))
        statuses: dict[str, str] = {each.id: each.status for each in ended}
        stories = [await records.timeline(scenario.scripts, name) for name in world.told]
    await redis.aclose()
    await server.stop()
    expired = sum(note == "LEASE_EXPIRED" for story in stories for _, _, note in story)
    record_property("messages", len(world.told))
    record_property("kills", 1)  # Redis; workers here are small, and their deaths are played
    record_property("played_crashes", world.crashes)
    record_property("fenced", world.fenced)
    judge(world, statuses, expired)


async def _kill_redis(redis: Redis, world: World) -> None:
    """Once, in the middle of everything, without a word."""
    await until(lambda: len(world.arrivals) >= PHONES * EACH // 3, "the middle of everything")
    found: Any = await redis.info("server")
    os.kill(int(found["process_id"]), signal.SIGKILL)


def judge(world: World, statuses: dict[str, str], expired: int) -> None:
    """The invariants, by their numbers."""
    repeats = len(world.arrivals) - len({each.message for each in world.arrivals})
    assert (repeats >= 4, expired >= 4, world.fenced >= 6) == (True, True, True), (repeats, expired, world.fenced)
    arrived = {each.message for each in world.arrivals}
    assert set(statuses) == set(world.told)  # I1: none is lost …
    assert set(statuses.values()) <= set(ENDED)  # … and each has ended
    unconfirmed = {name for name, status in statuses.items() if status == "unknown"}
    assert len(unconfirmed) <= MOST_UNCONFIRMED, unconfirmed
    for name, status in statuses.items():  # I4; an unconfirmed one may have arrived (I29)
        had = status in ("sent", "delivered", "read")
        assert name in unconfirmed or had == (name in arrived), (name, status)
    ids = defaultdict(set)
    for each in world.arrivals:
        ids[each.message].add(each.whatsapp_id)
    assert all(len(found) == 1 for found in ids.values())  # I2
    assert repeats <= world.crashes + 8  # each kill of Redis may leave one in flight per phone
    assert world.stale_successes == 0  # I10
    assert world.unbalanced == []  # I12
    _judge_order(world)
    _judge_pace(world)


def _judge_order(world: World) -> None:
    first_seen = list(dict.fromkeys(each.message for each in world.arrivals))
    by_recipient = defaultdict(list)
    for name in first_seen:
        number, to = world.told[name]
        by_recipient[to].append(number)
    assert all(numbers == sorted(numbers) for numbers in by_recipient.values())  # I5
    assert Counter(map(len, by_recipient.values()))


def _judge_pace(world: World) -> None:
    of_phone = defaultdict(list)
    for each in world.arrivals:
        of_phone[each.phone].append(each)
    for seen in of_phone.values():
        for before, after in pairwise(seen):
            assert after.at_ms - before.at_ms >= before.pause_ms - 2, (before, after)  # I6; two clocks differ by a ms
            assert before.pause_ms >= 2_000 / SCALE
