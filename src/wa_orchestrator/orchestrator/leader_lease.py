"""Who may act: the lease of the control plane, and how long nobody held it."""

import asyncio
import os
import secrets
import socket

import structlog
from redis.exceptions import RedisError

from wa_orchestrator.context import Context
from wa_orchestrator.store import keys, leases
from wa_orchestrator.store.engine.pubsub import end_if_cancelled
from wa_orchestrator.store.leases import Holding
from wa_orchestrator.store.sessions import CONTROL_LEASE

#: Short, so that a server that was killed gives way within seconds.
LEASE_MS = 3_000
RENEW_S = 0.7
#: Who does not lead asks more often: the work of a killed server waits for this.
_ASK_S = 0.2
#: After an absence longer than this, of the server or of Redis, silence of workers proves nothing.
ABSENCE_MS = 30_000
_SHORTEST_ABSENCE_MS = 5_000

log = structlog.get_logger(__name__)


class LeaderLease:
    """The lease as this process sees it. Scripts check the lease again: a process that lost it can do no harm."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._owner = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self.holding: Holding | None = None
        self.grace_from_ms = 0
        self.retired = False
        """Set when this process is about to end: it does not take the lease again."""
        self._acquired = asyncio.Event()

    @property
    def is_leader(self) -> bool:
        """Say whether this process acts for the installation now."""
        return self.holding is not None

    async def acquired(self) -> None:
        """Wait until this process has the lease."""
        await self._acquired.wait()

    async def step(self) -> None:
        """Take or keep the lease, and notice an absence."""
        if self.retired:
            return
        outcome = await leases.acquire_lease(self._context.scripts, CONTROL_LEASE, owner=self._owner, lease_ms=LEASE_MS)
        if not isinstance(outcome, Holding):
            self._lose("taken")
            return
        # Who sees that we lead must see from when on silence counts, too.
        await self._pulse()
        if self.retired:  # it was said while we asked
            await self._release(outcome)
            return
        if self.holding is None:
            log.info("control.gained", lease=outcome.value)
        self.holding = outcome
        self._acquired.set()

    async def run(self) -> None:
        """Keep the lease until cancelled, then give it back."""
        try:
            while True:
                try:
                    await self.step()
                except (RedisError, OSError) as error:
                    self._lose(type(error).__name__)
                end_if_cancelled()
                await asyncio.sleep(RENEW_S if self.is_leader else _ASK_S)
        finally:
            await self.release()

    async def retire(self) -> None:
        """Let another process act, and never lead again: this one is about to end."""
        self.retired = True
        await self.release()

    async def release(self) -> None:
        """Let another process act at once."""
        holding, self.holding = self.holding, None
        self._acquired.clear()
        if holding is not None:
            await self._release(holding)

    async def _release(self, holding: Holding) -> None:
        try:
            async with asyncio.timeout(LEASE_MS / 1000):  # then it has run out by itself
                await leases.release_lease(self._context.scripts, CONTROL_LEASE, holding)
        except (RedisError, OSError) as error:
            log.info("control.not_given_back", error=type(error).__name__)

    async def _pulse(self) -> None:
        now = await self._context.scripts.now_ms()
        before = await self._context.redis.set(keys.CONTROL_PULSE, now, get=True)
        absence = max(self._context.settings.scaled(ABSENCE_MS), _SHORTEST_ABSENCE_MS)
        if before is None or now - int(before) > absence:
            self.grace_from_ms = now
            log.info("control.grace", absent_ms=now - int(before) if before else None)

    def _lose(self, why: str) -> None:
        if self.holding is not None:
            log.warning("control.lost", why=why)
        self.holding = None
        self._acquired.clear()
