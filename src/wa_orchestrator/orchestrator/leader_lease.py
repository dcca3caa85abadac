"""Leader lease: which orchestrator starts, stops and watches workers, and since when nobody did."""

import asyncio
import os
import secrets
import socket
import time

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.clock_trace import ClockTrace
from wa_orchestrator.loop import Loop
from wa_orchestrator.orchestrator.workers.worker_spec import fence_ms
from wa_orchestrator.store import keys, leases
from wa_orchestrator.store.engine.pubsub import Listener
from wa_orchestrator.store.errors import RedisError
from wa_orchestrator.store.leases import Holding, LeaseTaken
from wa_orchestrator.store.sessions import CONTROL_LEASE, control_plane

#: How long nobody leads after a leader's machine was lost. Not shorter: a busy machine would change its leader.
LEASE_MS = 3_000
RENEW_S = 0.7
#: Followers ask more often: the work of a killed leader waits for this.
_ASK_S = 0.2
#: Times in a row that a follower misses a leader whom it knew, before it takes over: its connection may have broken.
_MISSED = 3
#: After a longer absence of the server or of Redis, missing pings say nothing about workers.
ABSENCE_MS = 30_000
_SHORTEST_ABSENCE_MS = 5_000
_KNOWN_CLOCK_S = 10.0

log = structlog.get_logger(__name__)


class LeaderLease:
    """The lease as this process knows it. Scripts check it again, so a process that lost it can do no harm.

    Every orchestrator subscribes to a channel of its own for as long as its process lives: followers see there that
    the process of a leader has ended, and do not wait for the end of its lease.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._owner = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self.presence = Listener(context.scripts, {keys.leader_presence(self._owner): lambda _: None})
        self._known_leader, self._missed = "", 0
        self._holding: Holding | None = None
        self._held_until = 0.0
        self.grace_from_ms = 0
        """Silence of workers counts from here on."""
        # Twice the longest time that anybody asks about: until a lost worker has left by itself.
        self.clock = ClockTrace(keep_s=2 * fence_ms(context.settings) / 1000 + _KNOWN_CLOCK_S)
        """Redis' clock while this process leads: it may be set."""
        self.retired = False
        """Set when this process is about to end: it does not take the lease again."""
        self._acquired = asyncio.Event()

    @property
    def holding(self) -> Holding | None:
        """What proves that this process leads; None from the moment at which its lease has ended unless renewed.

        By its own clock: a process that was frozen must not act before it has asked.
        """
        return self._holding if time.monotonic() < self._held_until else None

    @property
    def is_leader(self) -> bool:
        """Whether this process acts for the installation now."""
        return self.holding is not None

    async def acquired(self) -> None:
        if not self.is_leader:
            self._acquired.clear()
        await self._acquired.wait()

    async def run(self) -> None:
        """Keep the lease until cancelled, then release it."""
        present = asyncio.create_task(self.presence.run())
        try:
            await Loop("leader_lease", self.step).run()
        finally:
            await self.release()
            present.cancel()
            await asyncio.gather(present, return_exceptions=True)

    async def step(self) -> float:
        """Take or renew the lease, and record an absence. Return the seconds until the next renewal."""
        try:
            if not self.retired:
                await self._renew()
        except (RedisError, OSError) as error:
            self._lose(type(error).__name__)
        return RENEW_S if self.is_leader else _ASK_S

    async def _renew(self) -> None:
        asked_at = time.monotonic()  # before it was asked for: the lease lasts a little longer
        outcome = await self._acquire()
        if isinstance(outcome, LeaseTaken) and await self._is_gone(outcome):
            log.info("leader.gone", lease=outcome.value)
            # Of that lease alone: a leader that lives after all and has taken another one keeps it.
            await leases.release_lease(self._context.scripts, CONTROL_LEASE, Holding(outcome.value))
            asked_at = time.monotonic()
            outcome = await self._acquire()
        if not isinstance(outcome, Holding):
            self._lose("taken")
            return
        # Before `is_leader` becomes true: the watchdog must know from when on silence counts.
        await self._record_pulse()
        if self.retired:  # set while we waited for Redis
            await self._release(outcome)
            return
        if self._holding != outcome:
            log.info("leader.acquired", lease=outcome.value)
        self._holding, self._held_until = outcome, asked_at + LEASE_MS / 1000
        self._acquired.set()

    async def _acquire(self) -> Holding | LeaseTaken:
        return await leases.acquire_lease(self._context.scripts, CONTROL_LEASE, owner=self._owner, lease_ms=LEASE_MS)

    async def _is_gone(self, taken: LeaseTaken) -> bool:
        """Whether the process of a leader has ended. One that was never seen, of an earlier version, is waited for."""
        if await leases.is_present(self._context.scripts, taken.owner):
            self._known_leader, self._missed = taken.value, 0
            return False
        self._missed += taken.value == self._known_leader
        return self._missed >= _MISSED

    async def retire(self) -> None:
        """Release the lease and never take it again: this process is about to end."""
        self.retired = True
        await self.release()

    async def release(self) -> None:
        """Release the lease, so that another process can lead at once."""
        holding, self._holding = self._holding, None
        self._acquired.clear()
        if holding is not None:
            await self._release(holding)

    async def _release(self, holding: Holding) -> None:
        try:
            async with asyncio.timeout(LEASE_MS / 1000):  # after that it has expired
                await leases.release_lease(self._context.scripts, CONTROL_LEASE, holding)
        except (RedisError, OSError) as error:
            log.info("leader.not_released", error=type(error).__name__)

    async def _record_pulse(self) -> None:
        now = await self._context.scripts.now_ms()
        self.clock.note(now, time.monotonic())
        before = await control_plane.record_pulse(self._context.scripts, now)
        absence = max(self._context.settings.scaled(ABSENCE_MS), _SHORTEST_ABSENCE_MS)
        if before is None or abs(now - before) > absence:  # nobody led, or Redis' clock was set
            self.grace_from_ms = now
            log.info("leader.grace_started", absent_ms=now - before if before else None)

    def _lose(self, why: str) -> None:
        self.clock.clear()
        if self._holding is not None:
            log.warning("leader.lost", why=why)
        self._holding = None
        self._acquired.clear()
