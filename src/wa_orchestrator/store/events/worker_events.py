"""Which events of workers were received: each is handled once, and one whose handling failed may come again.

A frequent event is handled by one script, which also notes it as received. Others are begun, handled, and accepted.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Argument, Scripts
from wa_orchestrator.store.outcomes import Fenced
from wa_orchestrator.store.record_codec import flat
from wa_orchestrator.store.records import SessionChanges

#: For how long an event that is being handled makes its repetitions wait; the scripts use the same number.
_IN_PROGRESS_MS: Final = 30_000
_IN_PROGRESS: Final = "working"
_MAX_ID_LENGTH: Final = 200


@dataclass(frozen=True, slots=True)
class Repeated:
    """The event was accepted before."""


@dataclass(frozen=True, slots=True)
class InProgress:
    """The same event is being handled right now."""


@dataclass(frozen=True, slots=True)
class EventAccepted:
    """The event is done, and noted as received."""


Refusal = Fenced | InProgress | Repeated
"""Why an event is not handled."""
REFUSALS: Final[Mapping[str, Callable[..., Refusal]]] = {
    "fenced": Fenced, "in_progress": InProgress, "repeated": Repeated,
}  # fmt: skip
"""The same by the words of the scripts that note an event."""


@dataclass(frozen=True, slots=True)
class EventDelivery:
    """An event as it was delivered: its session, the epoch of its worker, its id, and how long the id is kept."""

    session: str
    epoch: int
    event_id: str
    body: bytes
    keep_ms: int

    @property
    def key(self) -> str:
        """The key of the mark by which a repetition is known."""
        return keys.heard(self.session, self.event_id[:_MAX_ID_LENGTH])

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.body).hexdigest()

    def args(self) -> list[Argument]:
        """Return the arguments of a script that notes the event."""
        return [self.epoch, self.digest, self.keep_ms]


async def begin(scripts: Scripts, delivery: EventDelivery) -> Repeated | InProgress | None:
    """Reserve an event for handling; None if it may be handled."""
    before: Any = await scripts.redis.set(delivery.key, _IN_PROGRESS, nx=True, px=_IN_PROGRESS_MS, get=True)
    if before is None:
        return None
    return InProgress() if before == _IN_PROGRESS else Repeated()


async def accept(scripts: Scripts, delivery: EventDelivery) -> None:
    """Note that an event which was begun is done."""
    await scripts.redis.set(delivery.key, delivery.digest, px=delivery.keep_ms)


async def release(scripts: Scripts, delivery: EventDelivery) -> None:
    """Let an event that could not be handled come again."""
    await scripts.redis.delete(delivery.key)


async def accept_ping(scripts: Scripts, delivery: EventDelivery, fields: SessionChanges) -> EventAccepted | Refusal:
    """Write what a worker's ping says into its session, and when it came, and note the ping as received."""
    return await _accept(scripts, delivery, ["last_ping_at", *flat(fields)])


async def accept_ignored(scripts: Scripts, delivery: EventDelivery) -> EventAccepted | Refusal:
    """Note an event that changes nothing as received."""
    return await _accept(scripts, delivery, [""])


async def _accept(scripts: Scripts, delivery: EventDelivery, fields: list[Argument]) -> EventAccepted | Refusal:
    names = [keys.session(delivery.session), delivery.key]
    return await scripts.ask("accept_event", names, [*delivery.args(), *fields], accepted=EventAccepted, **REFUSALS)
