"""Lost workers: those that may still run where nobody can stop them, and when they have certainly left WhatsApp."""

import time

from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions.reconciliation import node_of
from wa_orchestrator.domain.workers.nodes import NodeState
from wa_orchestrator.orchestrator.leader_lease import LeaderLease
from wa_orchestrator.orchestrator.workers.worker_spec import silent_after_ms
from wa_orchestrator.runner.contract import PlacingRunner, Runner
from wa_orchestrator.store import sessions
from wa_orchestrator.store.records import Session, SessionChanges


class LostWorkers:
    """What the sessions' records say of them. Where all workers run on one machine, there are none."""

    def __init__(self, context: Context, lease: LeaderLease) -> None:
        self._context = context
        self._lease = lease

    async def note(self, session: Session) -> None:
        """Note that the session's worker may still run where nobody can stop it.

        Fence it before: the server must take no sign of it any more, or it would never leave.
        """
        if session.worker_lost_at == 0:
            now = await self._context.scripts.now_ms()
            await sessions.update(self._context.scripts, session.id, SessionChanges(worker_lost_at=now))

    async def is_away(self, runner: Runner, handle: str) -> bool:
        """Whether the node of a worker does not answer. Who has just been stopped there may run on."""
        node = node_of(handle)
        if not node or not silent_after_ms(self._context.settings) or not isinstance(runner, PlacingRunner):
            return False
        return all(each.name != node or each.state is NodeState.LOST for each in await runner.nodes())

    async def may_still_speak(self, session: Session) -> bool:
        """Whether a lost worker of this session may be connected: it leaves by itself FENCE_MS after its last sign."""
        silent_after = silent_after_ms(self._context.settings)
        if not session.worker_lost_at or not silent_after:
            return False
        now = await self._context.scripts.now_ms()
        if session.worker_lost_at > now:  # Redis' clock was set back
            await sessions.update(self._context.scripts, session.id, SessionChanges(worker_lost_at=now))
        last_sign = min(session.last_ping_at or session.worker_lost_at, session.worker_lost_at, now)
        # Redis' clock may have been set forward since, and then shows more time than has passed.
        passed_ms = min(now - last_sign, self._lease.clock.elapsed_ms(last_sign, time.monotonic()))
        return passed_ms < silent_after
