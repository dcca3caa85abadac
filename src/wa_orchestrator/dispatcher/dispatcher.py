"""The dispatcher's loop: does everything that is due, then sleeps until the next deadline or a wake-up."""

import asyncio
import time
from collections.abc import Callable

from wa_orchestrator.context import Context
from wa_orchestrator.dispatcher.clock_steps import ClockSteps
from wa_orchestrator.dispatcher.releaser import Releaser, Served
from wa_orchestrator.dispatcher.router import Router
from wa_orchestrator.dispatcher.sweeper import Sweeper
from wa_orchestrator.loop import Loop
from wa_orchestrator.store import keys, readiness
from wa_orchestrator.store.engine.pubsub import Listener

#: The longest sleep: work that another dispatcher dropped when it died is found after this time.
LONGEST_SLEEP_S = 2.0
#: Deadlines are checked at least this often; nothing announces a new lease.
SWEEP_EVERY_S = 1.0
#: `/ready` knows from this that some dispatcher works.
BEAT_EVERY_S = 1.0
#: A lost wake-up is found after this time. Phones that wait for a person are then served in vain, which is cheap.
WAKE_SLEEPERS_EVERY_S = 60.0


class Dispatcher:
    """One of any number of dispatchers. All state is in Redis: kill it between any two lines and another continues."""

    def __init__(
        self,
        context: Context,
        *,
        jitter: Callable[[], float] | None = None,
        clock_steps: ClockSteps | None = None,
    ) -> None:
        """Work on this context's store; `jitter` draws the pauses."""
        self._settings = context.settings
        self._scripts = scripts = context.scripts
        self.router = Router(scripts, context.settings)
        self.sweeper = Sweeper(scripts, context.settings)
        self.releaser = Releaser(scripts, context.settings, self.router, jitter=jitter, clock_steps=clock_steps)
        self._woken = asyncio.Event()
        self._beat_at = 0.0
        self._sweep_at = 0.0
        self._wake_sleepers_at = 0.0

    async def run(self) -> None:
        """Dispatch until cancelled, through every outage of Redis."""
        listener = Listener(self._scripts, {keys.WAKE: lambda _: self._woken.set()})
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(listener.run())
            tasks.create_task(Loop("dispatcher", self.step, wake=self._woken).run())

    async def step(self) -> float:
        """Do everything that is due. Return after how many seconds something else may be due; 0 for at once."""
        await self._beat()
        routed = await self.router.step()
        sleep_s = await self._sweep()
        served = await self.releaser.step()
        if served.clock_was_set:
            await self.sweeper.wake_all()
            return 0.0
        return 0.0 if routed else min(sleep_s, self._until_next(served))

    async def _beat(self) -> None:
        if time.monotonic() >= self._beat_at:
            await readiness.beat(self._scripts)
            self._beat_at = time.monotonic() + BEAT_EVERY_S

    async def _sweep(self) -> float:
        now = time.monotonic()
        if now < self._sweep_at:
            return self._sweep_at - now
        if now >= self._wake_sleepers_at:
            await self.sweeper.wake_sleepers()
            self._wake_sleepers_at = now + self._settings.scaled(WAKE_SLEEPERS_EVERY_S)
        swept = await self.sweeper.step()
        every_s = 0.0 if swept else max(0.02, self._settings.scaled(SWEEP_EVERY_S))
        self._sweep_at = now + every_s
        return every_s

    def _until_next(self, served: Served) -> float:
        if served.next_ms is None:
            return LONGEST_SLEEP_S
        return min(LONGEST_SLEEP_S, max(0.0, (served.next_ms - served.now_ms) / 1000))
