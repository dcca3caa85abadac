"""The gateway's own steps: rate and acceptance in one, and the mark of a burst. Calls are given for batching."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from wa_orchestrator.store import keys
from wa_orchestrator.store.accepting import Acceptance, Idempotency, NewMessage, Room, accept_call, read_acceptance
from wa_orchestrator.store.limits import Limited
from wa_orchestrator.store.scripts import Reply, unexpected

Call = tuple[list[str], list[str | int | float]]
"""The keys and the arguments of a script."""


@dataclass(frozen=True, slots=True)
class Rate:
    """How often an API key may call: one call every `gap_ms`, and `burst` of them at once."""

    api_key_id: str
    gap_ms: float
    burst: int


def rate_call(rate: Rate) -> Call:
    """The keys and arguments of the script `rate` for one call."""
    return [keys.rate(rate.api_key_id)], [rate.gap_ms, rate.burst, 1]


def admit_call(rate: Rate, message: NewMessage, room: Room, idempotency: Idempotency | None) -> Call:
    """The keys and arguments of the script `admit`."""
    rate_names, rate_args = rate_call(rate)
    names, args = accept_call(message, room, idempotency)
    return rate_names + names, rate_args + args


def read_admission(reply: Reply) -> Acceptance | Limited:
    """The script's words as a value."""
    if reply[0] == "limited":
        return Limited(int(reply[1]))
    return read_acceptance(reply)


@dataclass(frozen=True, slots=True)
class Burst:
    """The phone is marked until then; `fresh` is whether this call marked it."""

    until_ms: int
    fresh: bool


class Runner(Protocol):
    """Whoever runs scripts: `Scripts` itself, or something that batches their calls."""

    async def run(self, name: str, keys: Sequence[str], args: Sequence[str | int | float] = ()) -> Reply:
        """Run one script."""
        ...


async def mark_burst(scripts: Runner, *, phone: str, session: str, submitted: int, length_ms: int) -> Burst:
    """Mark a phone's burst and tell it once; later calls change nothing until the mark has ended."""
    names = [keys.pace(phone), keys.EVENTS, keys.session_events(session)]
    reply = await scripts.run("burst", names, [phone, session, submitted, length_ms])
    match reply:
        case ["marked", until]:
            return Burst(int(until), fresh=True)
        case ["already", until]:
            return Burst(int(until), fresh=False)
        case _:
            raise unexpected("burst", reply)
