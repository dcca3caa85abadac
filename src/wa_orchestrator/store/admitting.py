"""Rate and acceptance in one step. The calls are given for batching."""

from dataclasses import dataclass

from wa_orchestrator.store import keys
from wa_orchestrator.store.accepting import Acceptance, Idempotency, NewMessage, Room, accept_call, read_acceptance
from wa_orchestrator.store.limits import Limited
from wa_orchestrator.store.scripts import Reply

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
