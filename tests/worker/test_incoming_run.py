"""The long run of incoming messages: cuts, SIGTERM and kill -9 at random moments, in backlogs and live.

`INCOMING=full pytest -s tests/worker/test_incoming_run.py` takes 1,000 messages and 200 interruptions of each kind;
`INCOMING_SEED` repeats a run's dice.
"""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, field

import pytest

from tests.chaos import Record
from tests.worker.harness import Rig, Session, new_phone
from tests.worker.test_incoming import all_reported_once, reported

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(4 * 3600)]

LONGEST_LIFE_S = 0.5
"""An interruption comes within this time after the connection opened, or after the worker began to start."""
STARTING = 0.15
"""The share of interruptions that do not wait for the connection."""
KINDS = ("cut", "SIGTERM", "kill -9")


@dataclass(frozen=True, slots=True)
class Size:
    messages: int
    backlog: int
    interruptions: int
    """Of each kind."""


SIZE = Size(1_000, 100, 200) if os.environ.get("INCOMING") == "full" else Size(60, 15, 6)


@dataclass
class Run:
    """One session, the people who write to it, and everything they wrote."""

    session: Session
    dice: random.Random
    friends: list[str] = field(default_factory=lambda: [new_phone() for _ in range(5)])
    texts: list[str] = field(default_factory=list)
    seen: int = 0
    """Events before the newest start or cut."""

    async def write(self, count: int) -> None:
        """Somebody writes so many messages."""
        for _ in range(count):
            text = f"message {len(self.texts)}"
            await self.session.rig.world.whatsapp.send_text(self.dice.choice(self.friends), self.session.phone, text)
            self.texts.append(text)

    async def start(self) -> None:
        self.seen = len(self.session.station.events)
        await self.session.start()

    async def some_life(self) -> None:
        """Wait until some random moment of the worker's life."""
        if self.dice.random() > STARTING:
            await self.session.event("CONNECTED", after=self.seen)
        await asyncio.sleep(self.dice.uniform(0, LONGEST_LIFE_S))

    async def interrupt(self, kind: str, while_down: int) -> None:
        """Interrupt the worker; meanwhile so many messages arrive, if it is down."""
        if kind == "cut":
            self.seen = len(self.session.station.events)
            await self.session.rig.world.whatsapp.fault("drop", phone=self.session.phone)
            await self.write(while_down)
            return
        process = self.session.worker.process
        process.send_signal(signal.SIGTERM if kind == "SIGTERM" else signal.SIGKILL)
        await self.session.worker.ended()
        await self.write(while_down)
        await self.start()


def plan(dice: random.Random) -> list[tuple[str, int, int]]:
    """Each interruption: its kind, how many messages come live before it, and how many while the worker is down."""
    kinds = [kind for kind in KINDS for _ in range(SIZE.interruptions)]
    dice.shuffle(kinds)
    backlogs = SIZE.messages // SIZE.backlog // 2
    every = len(kinds) // backlogs
    live = Counter(dice.choices(range(len(kinds)), k=SIZE.messages - backlogs * SIZE.backlog))
    return [(kind, live[n], SIZE.backlog if n % every == 0 else 0) for n, kind in enumerate(kinds)]


async def test_whatever_interrupts_the_worker_every_incoming_message_is_reported_exactly_once(
    rig: Rig, record_property: Record
) -> None:
    record_property("messages", SIZE.messages)
    record_property("kills", SIZE.interruptions)
    record_property("cuts_and_sigterms", SIZE.interruptions * (len(KINDS) - 1))
    seed = os.environ.get("INCOMING_SEED") or str(random.SystemRandom().randrange(1_000_000))
    print(f"INCOMING_SEED={seed}", flush=True)
    run = Run(rig.session(), random.Random(seed))
    await run.session.link()
    began = time.monotonic()
    for number, (kind, live, while_down) in enumerate(plan(run.dice), 1):
        await run.write(live)
        await run.some_life()
        await run.interrupt(kind, while_down)
        if number % 50 == 0:
            told = f"{number} interruptions, {len(run.texts)} messages, {len(reported(run.session))} reported"
            print(f"{told}, {time.monotonic() - began:.0f} s", flush=True)
    await run.session.event("CONNECTED", after=run.seen)
    assert len(run.texts) == SIZE.messages
    await all_reported_once(run.session, set(run.texts))
    told = f"{SIZE.messages} messages, {SIZE.interruptions} of each of {', '.join(KINDS)}: each reported exactly once"
    print(f"{told} ({time.monotonic() - began:.0f} s)", flush=True)
