"""Handles deadlines: scheduled messages join their queues, leases and messages expire."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

from wa_orchestrator.dispatcher.release_permit import unclaimed_ms
from wa_orchestrator.domain.messages.retry import MOST_CRASHES
from wa_orchestrator.messages.session_pace import day_of
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import deadlines, outbox, phone_queues, queues
from wa_orchestrator.store.messages.deadlines import Deadline
from wa_orchestrator.store.messages.message_keys import Place, locate_all

BATCH = 200
#: A message that a worker holds cannot expire; it is checked again after this time.
_HELD_MS = 30_000

log = structlog.get_logger(__name__)


class Sweeper:
    """Handles what is overdue. Two at once do no harm: every script checks Redis' own clock again."""

    def __init__(self, scripts: Scripts, settings: Settings) -> None:
        self._scripts = scripts
        self._settings = settings
        self._longest_lease_ms = max(unclaimed_ms(settings), int(settings.scaled(settings.lease_ms)))
        self._handlers: dict[Deadline, Callable[[Place], Awaitable[None]]] = {
            Deadline.SCHEDULED: self._promote,
            Deadline.LEASE: self._reclaim,
            Deadline.EXPIRY: self._expire,
        }

    async def step(self) -> int:
        """Handle what is overdue now, at most `BATCH` of each kind; return how many deadlines."""
        now_ms = await self._scripts.now_ms()
        await outbox.shorten_leases(self._scripts, longest_ms=self._longest_lease_ms)
        overdue = await deadlines.overdue(self._scripts, now_ms, most=BATCH)
        for kind, ids in overdue.items():
            await self._handle(kind, ids)
        return sum(len(ids) for ids in overdue.values())

    async def wake_sleepers(self) -> int:
        """Wake the phones for which messages wait and that nothing will wake. Return how many.

        A phone that waits for a person or for its connection is woken by that; if the wake-up was lost, here.
        """
        asleep = await phone_queues.asleep(self._scripts, await self._phones())
        await queues.wake(self._scripts, *asleep)
        return len(asleep)

    async def wake_all(self) -> None:
        """Wake every phone: Redis' clock was set, and when they are due means nothing any more."""
        await queues.wake(self._scripts, *await self._phones())

    async def _phones(self) -> list[str]:
        return sorted({session.phone for session in await records.sessions(self._scripts) if session.phone})

    async def _handle(self, kind: Deadline, ids: Sequence[str]) -> None:
        if not ids:
            return
        known = await locate_all(self._scripts, ids)
        await deadlines.forget(self._scripts, kind, set(ids) - {place.message for place in known})
        await asyncio.gather(*map(self._handlers[kind], known))

    async def _promote(self, place: Place) -> None:
        await queues.promote(self._scripts, place)

    async def _reclaim(self, place: Place) -> None:
        session = await records.session(self._scripts, place.session)
        day = day_of(self._settings, session, await self._scripts.now_ms())
        outcome = await outbox.reclaim(self._scripts, place, most_crashes=MOST_CRASHES, day=day)
        if isinstance(outcome, outbox.Became):
            log.warning("message.reclaimed", session=place.session, message=place.message, status=outcome.status)

    async def _expire(self, place: Place) -> None:
        ended = await queues.expire(self._scripts, place)
        if isinstance(ended, queues.TooLate):
            later_ms = await self._scripts.now_ms() + int(self._settings.scaled(_HELD_MS))
            await deadlines.move(self._scripts, Deadline.EXPIRY, place.message, later_ms)
