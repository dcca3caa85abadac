"""Compare-and-set: read, decide, write unless the record changed meanwhile; if it did, start over."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from wa_orchestrator.errors import Unavailable

#: Each lost race means that another writer won one. More in a row than this does not happen by chance.
ATTEMPTS = 50

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Changed:
    """The record changed after it was read, and nothing was written. Read it again."""


async def compare_and_set(
    what: str, attempt: Callable[[], Awaitable[T | Changed]], *, code: str = "WRITE_CONFLICT"
) -> T:
    """Call `attempt` until it does not return `Changed`, and return its result.

    `attempt` reads the record, decides, and writes with a script that compares versions. Raises `Unavailable` when
    every attempt lost its race: a lost race is never a success, and trying again later may help.
    """
    for _ in range(ATTEMPTS):
        outcome = await attempt()
        if not isinstance(outcome, Changed):
            return outcome
    raise Unavailable(code, f"{what} is being changed by others. Try again.", retryAfterS=1)
