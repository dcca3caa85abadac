"""Compare-and-set: read, decide, write unless the record changed meanwhile; if it did, start over."""

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from wa_orchestrator.errors import Unavailable

#: Each lost race means that another writer won one. More in a row than this does not happen by chance.
ATTEMPTS = 50

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Changed:
    """The record changed after it was read, and nothing was written. Read it again."""


def compare_and_set(
    what: str, *, code: str = "WRITE_CONFLICT"
) -> Callable[[Callable[P, Awaitable[T | Changed]]], Callable[P, Coroutine[Any, Any, T]]]:
    """Repeat the decorated function until it does not return `Changed`, and return its result.

    `what` names the record, by arguments of the function: `Session {session.id}`.

    The function reads the record, decides, and writes with a script that compares versions. Raises `Unavailable` when
    every attempt lost its race: a lost race is never a success, and trying again later may help.
    """

    def decorate(attempt: Callable[P, Awaitable[T | Changed]]) -> Callable[P, Coroutine[Any, Any, T]]:
        @wraps(attempt)
        async def repeat(*args: P.args, **kwargs: P.kwargs) -> T:
            for _ in range(ATTEMPTS):
                outcome = await attempt(*args, **kwargs)
                if not isinstance(outcome, Changed):
                    return outcome
            named = what.format_map(inspect.signature(attempt).bind(*args, **kwargs).arguments)
            raise Unavailable(code, f"{named} is being changed by others. Try again.", retryAfterS=1)

        return repeat

    return decorate
