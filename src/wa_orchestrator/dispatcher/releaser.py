"""From the queues into the outboxes: each due phone is looked at once, and told when to be looked at again."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass

import structlog
from redis.exceptions import RedisError

from wa_orchestrator.dispatcher import due_phones
from wa_orchestrator.dispatcher.due_phones import View
from wa_orchestrator.dispatcher.release_permit import permit
from wa_orchestrator.dispatcher.router import Router
from wa_orchestrator.domain.sender_pin import is_left_behind
from wa_orchestrator.session_pace import Holds
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys, queues
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.message_keys import Place
from wa_orchestrator.store.records import Message, Session
from wa_orchestrator.timestamps import FOREVER_MS

BATCH = 200
#: If a dispatcher dies during a look, the phone is due again after this time.
AWAY_MS = 5_000
_TROUBLE_MS = 60_000

log = structlog.get_logger(__name__)
#: A number in [0, 1) that nobody outside can foresee; a pattern in the pauses would give a machine away.
_DICE: Callable[[], float] = random.SystemRandom().random


@dataclass(frozen=True, slots=True)
class Looked:
    """So many phones were looked at; the next is due at `next_ms`, or none that is known."""

    now_ms: int
    phones: int
    next_ms: int | None


class Releaser:
    """Looks at the phones that are due. Its cost depends on how many are due, not on how many there are."""

    def __init__(self, scripts: Scripts, settings: Settings, router: Router, dice: Callable[[], float] = _DICE) -> None:
        """Work on this store; `router` takes messages whose sender is gone."""
        self._scripts = scripts
        self._settings = settings
        self._router = router
        self._dice = dice

    async def step(self) -> Looked:
        """Look at the phones that are due now, at most `BATCH`."""
        away_ms = max(1_000, int(self._settings.scaled(AWAY_MS)))
        taken = await queues.take_due(self._scripts, most=BATCH, away_ms=away_ms)
        if isinstance(taken, queues.Nothing):
            return Looked(taken.now_ms, 0, taken.next_ms)
        seen = await due_phones.read(self._scripts, taken.phones, taken.now_ms)
        await asyncio.gather(*(self._look(view, seen.holds, taken) for view in seen.phones))
        return Looked(taken.now_ms, len(taken.phones), taken.now_ms)

    async def _look(self, view: View, holds: Holds, taken: queues.Taken) -> None:
        try:
            next_ms = await self._serve(view, holds, taken.now_ms)
        except (RedisError, OSError):
            raise
        except Exception:
            log.exception("phone.look_failed", phone=view.phone)  # one bad record must not stop the other phones
            next_ms = taken.now_ms + _TROUBLE_MS
        await queues.settle_due(self._scripts, view.phone, taken.mark, next_ms)

    async def _serve(self, view: View, holds: Holds, now_ms: int) -> int | None:
        """Do what can be done for a phone now. Gives when to look again; None where a script will wake it."""
        if view.aside and view.lock_until_ms <= now_ms:
            await queues.restore_aside(self._scripts, view.phone)
            return now_ms
        if view.in_flight:
            return None
        if not view.head:
            return view.lock_until_ms if view.aside and view.lock_until_ms < FOREVER_MS else None
        if view.silent_until_ms > now_ms:
            return view.silent_until_ms
        if view.message is None:
            return await self._forget(view, now_ms)
        sender = view.sender()
        if sender is None:
            waits = await self._router.find_sender(view.message, view.recorded)
            return now_ms + _TROUBLE_MS if waits else now_ms
        if is_left_behind(view.pin, view.phone, sender.phone):
            await self._router.take_along(view.message, sender)
            return now_ms
        return await self._release(view, view.message, sender, holds, now_ms)

    async def _forget(self, view: View, now_ms: int) -> int:
        """A place in the queue without a message must not stop those behind it."""
        await self._scripts.redis.zrem(keys.queue(view.phone), view.head)
        log.error("message.missing", message=view.head, phone=view.phone)
        return now_ms

    async def _release(self, view: View, message: Message, sender: Session, holds: Holds, now_ms: int) -> int | None:
        place = Place(message.id, view.phone, sender.id)
        leave = permit(self._settings, sender, now_ms=now_ms, burst_until_ms=view.burst_until_ms, dice=self._dice())
        released = await queues.release(self._scripts, place, leave, to=message.to)
        match released:
            case queues.Released(at_ms):
                waited_ms = at_ms - max(message.accepted_at, view.silent_until_ms)
                log.info("message.released", session=sender.id, message=message.id, waited_ms=waited_ms)
                return None
            case queues.Wait(until_ms):
                return until_ms
            case queues.Held(by):
                return _end_of(holds, by, now_ms)
            case queues.MustEnd(reason):
                status = "expired" if reason == "EXPIRED" else "cancelled"
                recorded = Place(message.id, view.phone, message.session)
                await queues.cancel(self._scripts, recorded, status=status, reason=reason)
                return now_ms
            case queues.Changed() | queues.SetAside():
                return now_ms
            case queues.Busy() | queues.Offline():
                return None  # landing, or connecting, wakes it


def _end_of(holds: Holds, by: str, now_ms: int) -> int | None:
    """When a hold ends; None for one that a person must lift, which wakes its phones."""
    hold = holds.get(by)
    if hold is None:
        return now_ms  # it came between the look and the release
    return int(hold["until_ms"]) if hold["until_ms"] < FOREVER_MS else None
