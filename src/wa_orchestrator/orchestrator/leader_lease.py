"""Leader lease: which orchestrator starts, stops and watches workers, and since when nobody did."""

import asyncio
import os
import secrets
import socket

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.loop import Loop
from wa_orchestrator.store import leases
from wa_orchestrator.store.errors import RedisError
from wa_orchestrator.store.leases import Holding
from wa_orchestrator.store.sessions import CONTROL_LEASE, control_plane

#: Short, so that another server takes over within seconds after a kill.
LEASE_MS = 3_000
RENEW_S = 0.7
#: Followers ask more often: the work of a killed leader waits for this.
_ASK_S = 0.2
#: After a longer absence of the server or of Redis, missing pings say nothing about workers.
ABSENCE_MS = 30_000
_SHORTEST_ABSENCE_MS = 5_000

log = structlog.get_logger(__name__)


class LeaderLease:
    """The lease as this process knows it. Scripts check it again, so a process that lost it can do no harm."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._owner = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self.holding: Holding | None = None
        self.grace_from_ms = 0
        """Silence of workers counts from here on."""
        self.retired = False
        """Set when this process is about to end: it does not take the lease again."""
        self._acquired = asyncio.Event()

    @property
    def is_leader(self) -> bool:
        """Whether this process acts for the installation now."""
        return self.holding is not None

    async def acquired(self) -> None:
        await self._acquired.wait()

    async def run(self) -> None:
        """Keep the lease until cancelled, then release it."""
        try:
            await Loop("leader_lease", self.step).run()
        finally:
            await self.release()

    async def step(self) -> float:
        """Take or renew the lease, and record an absence. Return the seconds until the next renewal."""
        try:
            if not self.retired:
                await self._renew()
        except (RedisError, OSError) as error:
            self._lose(type(error).__name__)
        return RENEW_S if self.is_leader else _ASK_S

    async def _renew(self) -> None:
        outcome = await leases.acquire_lease(self._context.scripts, CONTROL_LEASE, owner=self._owner, lease_ms=LEASE_MS)
        if not isinstance(outcome, Holding):
            self._lose("taken")
            return
        # Before `is_leader` becomes true: the watchdog must know from when on silence counts.
        await self._record_pulse()
        if self.retired:  # set while we waited for Redis
            await self._release(outcome)
            return
        if self.holding is None:
            log.info("leader.acquired", lease=outcome.value)
        self.holding = outcome
        self._acquired.set()

    async def retire(self) -> None:
        """Release the lease and never take it again: this process is about to end."""
        self.retired = True
        await self.release()

    async def release(self) -> None:
        """Release the lease, so that another process can lead at once."""
        holding, self.holding = self.holding, None
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
        before = await control_plane.record_pulse(self._context.scripts, now)
        absence = max(self._context.settings.scaled(ABSENCE_MS), _SHORTEST_ABSENCE_MS)
        if before is None or abs(now - before) > absence:  # nobody led, or Redis' clock was set
            self.grace_from_ms = now
            log.info("leader.grace_started", absent_ms=now - before if before else None)

    def _lose(self, why: str) -> None:
        if self.holding is not None:
            log.warning("leader.lost", why=why)
        self.holding = None
        self._acquired.clear()
