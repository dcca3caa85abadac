"""Releases messages from the queues to the outboxes: serves each phone that is due, and sets when it is due again."""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from wa_orchestrator.dispatcher import due_phones
from wa_orchestrator.dispatcher.clock_steps import ClockSteps
from wa_orchestrator.dispatcher.due_phones import DuePhone
from wa_orchestrator.dispatcher.release_permit import permit
from wa_orchestrator.dispatcher.router import Router
from wa_orchestrator.domain.recipient import lid_of
from wa_orchestrator.messages.session_pace import Holds
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import due_items
from wa_orchestrator.store.due_items import Due, Taken
from wa_orchestrator.store.engine.compare_and_set import Changed
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.errors import RedisError
from wa_orchestrator.store.messages import contacts, phone_queues, queues
from wa_orchestrator.store.messages.message_keys import Place
from wa_orchestrator.store.messages.phone_queues import QueueHead
from wa_orchestrator.store.records import Message, Session
from wa_orchestrator.timestamps import FOREVER_MS

BATCH = 200
#: If a dispatcher dies while it serves a phone, the phone is due again after this time.
TAKEN_MS = 5_000
_TROUBLE_MS = 60_000

log = structlog.get_logger(__name__)
#: Draws a number in [0, 1) that nobody can predict; a pattern in the pauses would give a machine away.
_JITTER: Callable[[], float] = random.SystemRandom().random


@dataclass(frozen=True, slots=True)
class Served:
    """How many phones were served; the next is due at `next_ms`, or none that is known."""

    now_ms: int
    """Redis' time when they had been served."""
    phones: int
    next_ms: int | None
    clock_was_set: bool = False


class Releaser:
    """Serves the phones that are due. Its cost depends on how many are due, not on how many there are."""

    def __init__(
        self,
        scripts: Scripts,
        settings: Settings,
        router: Router,
        *,
        jitter: Callable[[], float] | None = None,
        clock_steps: ClockSteps | None = None,
    ) -> None:
        """Work on this store; `router` finds another sender for messages whose sender is gone."""
        self._scripts = scripts
        self._settings = settings
        self._router = router
        self._jitter = jitter or _JITTER
        self._clock_steps = clock_steps or ClockSteps()

    async def step(self) -> Served:
        """Serve the phones that are due now, at most `BATCH`."""
        taken_ms = max(1_000, int(self._settings.scaled(TAKEN_MS)))
        taken = await due_items.take(self._scripts, Due.PHONES, most=BATCH, away_ms=taken_ms)
        clock_was_set = self._clock_steps.observe(taken.now_ms)
        if not taken.items:
            return Served(taken.now_ms, 0, taken.next_ms, clock_was_set)
        begun_s = time.monotonic()
        holds, phones = await due_phones.read(self._scripts, taken.items, taken.now_ms)
        due_again = await asyncio.gather(*(self._serve_and_settle(due, holds, taken) for due in phones))
        known = [each for each in (taken.next_ms, *due_again) if each is not None]
        served_ms = taken.now_ms + int((time.monotonic() - begun_s) * 1000)
        return Served(served_ms, len(taken.items), min(known, default=None), clock_was_set)

    async def _serve_and_settle(self, due: DuePhone, holds: Holds, taken: Taken) -> int | None:
        """Serve a phone; return when it is due again, None where a script will wake it."""
        try:
            next_ms = await self._serve(due, holds, taken.now_ms)
        except (RedisError, OSError):
            raise
        except Exception:
            log.exception("phone.serve_failed", phone=due.queue.phone)  # one bad record must not stop the other phones
            next_ms = taken.now_ms + _TROUBLE_MS
        is_settled = await due_items.settle(self._scripts, Due.PHONES, due.queue.phone, taken.mark, next_ms=next_ms)
        return next_ms if is_settled else taken.now_ms

    async def _serve(self, due: DuePhone, holds: Holds, now_ms: int) -> int | None:
        """Do what can be done for a phone now. Return when it is due again; None where a script will wake it."""
        queue, pace = due.queue, due.queue.pace
        aside_until = pace.new_contacts.at_ms
        if queue.set_aside and aside_until <= now_ms:
            await queues.restore_set_aside(self._scripts, queue.phone)
            return now_ms
        if pace.in_flight:
            return None
        if not queue.head:
            return None
        silent_until = pace.silence_end(now_ms)
        silent_until = self._clock_steps.true_end(silent_until - pace.silence_ms, silent_until)
        if silent_until > now_ms:
            return silent_until
        if due.message is None:
            return await self._forget(queue, now_ms)
        sender = due.sender_of(due.message, holds, now_ms)
        if sender is None and queue.set_aside:
            await queues.restore_of_no_session(self._scripts, queue.phone)
            return now_ms
        if not queue.first:
            return aside_until if aside_until < FOREVER_MS else None
        if sender is None:
            waits = await self._router.find_sender(due.message)
            return now_ms + _TROUBLE_MS if waits else now_ms
        return await self._release(queue, due.message, sender, holds, now_ms)

    async def _forget(self, queue: QueueHead, now_ms: int) -> int:
        """Remove a queue entry without a message; it would block those behind it."""
        await phone_queues.remove(self._scripts, queue.phone, queue.head)
        log.error("message.missing", message=queue.head, phone=queue.phone)
        return now_ms

    async def _release(
        self, queue: QueueHead, message: Message, sender: Session, holds: Holds, now_ms: int
    ) -> int | None:
        place = Place(message.id, queue.phone, sender.id)
        burst_until_ms = queue.pace.burst_until
        limits = permit(self._settings, sender, now_ms=now_ms, burst_until_ms=burst_until_ms, jitter=self._jitter())
        jumped_ms = self._clock_steps.jumped_ms(now_ms, limits.minute_ms)
        whole_minute = replace(limits, minute_ms=limits.minute_ms + jumped_ms)
        # A phone's LID is looked up only where it matters: most releases need not pay for it.
        must_know = lid_of(message.to) or queue.pace.new_contacts.at_ms > now_ms
        name = await contacts.other_name(self._scripts, message.to) if must_know else ""
        released = await queues.release(self._scripts, place, whole_minute, other_name=name)
        match released:
            case queues.Released(at_ms):
                waited_ms = at_ms - max(message.accepted_at, queue.pace.silent_until)
                log.info("message.released", session=sender.id, message=message.id, waited_ms=waited_ms)
                return None
            case queues.Wait(until_ms):
                return min(until_ms, now_ms + limits.minute_ms) if jumped_ms else until_ms
            case queues.Held(by):
                return _end_of(holds, by, now_ms)
            case queues.MustEnd(reason):
                status = "expired" if reason == "EXPIRED" else "cancelled"
                recorded = Place(message.id, queue.phone, message.session)
                await queues.cancel(self._scripts, recorded, status=status, reason=reason)
                return now_ms
            case Changed() | queues.SetAside():
                return now_ms
            case queues.Busy() | queues.Offline():
                return None  # the end of the attempt, or the connection, wakes it


def _end_of(holds: Holds, by: str, now_ms: int) -> int | None:
    """Return when a hold ends; None for one that a person must lift, which wakes its phones."""
    hold = holds.get(by)
    if hold is None:
        return now_ms  # it was placed after `holds` was read
    return hold.until_ms if hold.until_ms < FOREVER_MS else None
