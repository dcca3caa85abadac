"""The pace as WhatsApp sees it, over two weeks with a clock change and dying workers."""

import asyncio
import random
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from tests.conftest import Clock
from tests.dispatcher.scenario import DAY_MS, Scenario, settings
from wa_orchestrator.dispatcher.dispatcher import Dispatcher
from wa_orchestrator.domain.pacing.limits import PRESETS, Override, Pace, Preset, trust
from wa_orchestrator.messages.session_pace import encode_override
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts

BEGIN_MS = int(datetime(2026, 10, 18, 4, 30, tzinfo=UTC).timestamp() * 1000)
DAYS = 15
WARM_PER_DAY = 30
"""Set lower than the preset's, for a quicker test."""


@dataclass
class Phone:
    """A phone of the fleet, and what WhatsApp saw of it: (instant, message, pause drawn for it)."""

    number: str
    session: str
    zone: str
    override: Override
    arrivals: list[tuple[int, str, int]] = field(default_factory=list)

    def pace(self, at_ms: int) -> Pace:
        preset = PRESETS[Preset.STANDARD][trust(BEGIN_MS, at_ms)]
        return self.override.onto(replace(preset, per_day=min(preset.per_day, WARM_PER_DAY)))


FLEET = (
    Phone("972500000001", "w1", "Asia/Jerusalem", Override()),
    Phone("442000000002", "w2", "Europe/London", Override(per_day=12, per_minute=3)),
    Phone("121000000003", "w3", "America/New_York", Override(per_day=10, opens=time(22), closes=time(1, 30))),
)


@dataclass
class World:
    """Workers that take a while, and of which one in forty dies after WhatsApp has the message."""

    scenario: Scenario
    clock: Clock
    rng: random.Random = field(default_factory=lambda: random.Random(7))
    acks: list[tuple[int, str]] = field(default_factory=list)
    deaths: int = 0

    async def serve(self, phone: Phone) -> None:
        message = await self.scenario.claim(phone.session, phone.number)
        if message is None:
            return
        pause: Any = await self.scenario.scripts.redis.hget(keys.message(message), "pause_ms")
        pause_ms = int(pause)
        arrival_ms = self.clock.now_ms + self.rng.randrange(100, 8_000)
        phone.arrivals.append((arrival_ms, message, pause_ms))
        if self.rng.random() < 0.025:
            self.deaths += 1
        else:
            self.acks.append((arrival_ms + self.rng.randrange(1, 2_000), message))

    async def feed(self, dispatcher: Dispatcher, phone: Phone) -> None:
        """Never let a queue run dry."""
        for _ in range(45):
            await self.scenario.accept(phone.session, phone.number, to=f"9725{self.rng.randrange(10**7):07d}")
        await dispatcher.router.step()

    async def act(self, dispatcher: Dispatcher) -> None:
        """Everything that happens at this instant."""
        while (await dispatcher.releaser.step()).phones:
            pass
        lengths = await asyncio.gather(*(self.scenario.scripts.redis.llen(keys.outbox(each.session)) for each in FLEET))
        for phone, released in zip(FLEET, lengths, strict=True):
            if released:
                await self.serve(phone)

    async def go_on(self, dispatcher: Dispatcher) -> None:
        """Let time pass until something happens."""
        self.acks.sort()
        found: Any = await asyncio.gather(
            *(self.scenario.scripts.redis.zrange(name, 0, 0, withscores=True) for name in (keys.DUE, keys.LEASES))
        )
        due, leases = found
        lease_ends = [int(score) for _, score in leases]
        instants = [int(score) for _, score in due] + lease_ends + [at for at, _ in self.acks[:1]]
        await self.clock.set(max(self.clock.now_ms, min(instants)))
        if lease_ends and lease_ends[0] <= self.clock.now_ms:
            await dispatcher.sweeper.step()
        while self.acks and self.acks[0][0] <= self.clock.now_ms:
            await self.scenario.ack(self.acks.pop(0)[1])


async def test_not_one_message_of_a_fortnight_is_outside_limits_hours_or_pauses(held: Scripts, clock: Clock) -> None:
    await clock.set(BEGIN_MS)
    scenario = Scenario(held, settings(warm_per_day=WARM_PER_DAY, hot_per_day=WARM_PER_DAY))
    for phone in FLEET:
        phone.arrivals.clear()
        limits = encode_override(phone.override)
        await scenario.connect(phone.session, phone.number, timezone=phone.zone, limits=limits)
    world = World(scenario, clock)
    dispatcher = scenario.dispatcher()
    dispatcher.releaser._jitter = world.rng.random
    for day in range(DAYS):
        for phone in FLEET:
            await world.feed(dispatcher, phone)
        while clock.now_ms < BEGIN_MS + (day + 1) * DAY_MS:
            await world.act(dispatcher)
            await world.go_on(dispatcher)
    assert world.deaths > 5  # else the run proves nothing
    for phone in FLEET:
        assert len(phone.arrivals) > 120
        check_gaps(phone)
        check_minutes(phone)
        check_days(phone)
        check_hours(phone)
    # Neither is it slower than it must be: most days are used to the last message.
    assert len(FLEET[0].arrivals) > 3 * 20 + 0.9 * 11 * 30


def check_gaps(phone: Phone) -> None:
    for (before, _, pause_ms), (after, _, _) in zip(phone.arrivals, phone.arrivals[1:], strict=False):
        assert after - before >= pause_ms >= phone.pace(before).pause_base_ms


def check_minutes(phone: Phone) -> None:
    instants = [at for at, _, _ in phone.arrivals]
    for n, at in enumerate(instants):
        within = n + 1 - bisect_left(instants, at - 59_999)
        assert within <= phone.pace(at).per_minute


def check_days(phone: Phone) -> None:
    counts: dict[object, int] = {}
    for at, _, _ in phone.arrivals:
        day = local(phone, at).date()
        counts[day] = counts.get(day, 0) + 1
        assert counts[day] <= phone.pace(at).per_day


def check_hours(phone: Phone) -> None:
    for at, _, _ in phone.arrivals:
        pace, clock = phone.pace(at), local(phone, at).time()
        if pace.opens < pace.closes:
            assert pace.opens <= clock < pace.closes
        else:
            assert clock >= pace.opens or clock < pace.closes


def local(phone: Phone, at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, tz=ZoneInfo(phone.zone))
