"""Which parts of the installation work now: a leader, a dispatcher, workers."""

from dataclasses import dataclass
from typing import Final

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.sessions import CONTROL_LEASE

#: A dispatcher that was not heard for this long does not work.
_BEAT_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class WorkingParts:
    """What works now. All processes see the same."""

    leader: bool
    """Some orchestrator starts, stops and watches workers."""
    dispatcher: bool
    """Some dispatcher routes and releases messages."""
    workers: int
    """So many workers have their session connected."""


async def read(scripts: Scripts) -> WorkingParts:
    """Return what works now, in one round trip."""
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.exists(keys.lease(CONTROL_LEASE))
        pipe.exists(keys.DISPATCHER_BEAT)
        pipe.scard(keys.SESSIONS_ACTIVE)
        leader, dispatcher, workers = await pipe.execute()
    return WorkingParts(bool(leader), bool(dispatcher), int(workers))


async def beat(scripts: Scripts) -> None:
    """Say that a dispatcher works."""
    await scripts.redis.set(keys.DISPATCHER_BEAT, "1", px=_BEAT_MS)
