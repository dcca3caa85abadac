"""How tests wait: for a condition, with a deadline that says what was missing, never for an amount of time.

Where something signals (a line that a program prints, a condition, a future), wait for the signal. Where nobody does
(another process' files, counts, what a server answers), look again: here, and nowhere else.
"""

import asyncio
import inspect
import os
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

PATIENCE_S = 300.0
"""A deadline is for what never happens. What is merely slow, on a machine that has other things to do, must not meet it."""
LOOK_AGAIN_S = 0.02

#: 1 holds the product to its word, on a machine that has nothing else to do.
_LENIENCY = float(os.environ.get("LENIENCY", "4"))

T = TypeVar("T")
What = str | Callable[[], str]
"""What is waited for. A function is asked when it did not happen: it can tell what happened instead."""


@overload
async def until(look: Callable[[], Awaitable[T | None]], what: What, within_s: float = PATIENCE_S) -> T: ...
@overload
async def until(look: Callable[[], T | None], what: What, within_s: float = PATIENCE_S) -> T: ...
async def until(look: Callable[[], Any], what: What, within_s: float = PATIENCE_S) -> Any:
    """Look until there is something, and give it; `look` may be awaitable."""
    deadline = time.monotonic() + within_s
    while True:
        seen = look()
        if found := await seen if inspect.isawaitable(seen) else seen:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(_missing(what, within_s))
        await asyncio.sleep(LOOK_AGAIN_S)


def until_blocking(look: Callable[[], T | None], what: What, within_s: float = PATIENCE_S) -> T:
    """Look until there is something, and give it; for tests that have no loop."""
    deadline, never = time.monotonic() + within_s, threading.Event()
    while not (found := look()):
        assert time.monotonic() < deadline, _missing(what, within_s)
        never.wait(LOOK_AGAIN_S)
    return found


def _missing(what: What, within_s: float) -> str:
    return f"not within {within_s:g} s: {what if isinstance(what, str) else what()}"


def promised(seconds: float) -> float:
    """How long a test waits for what the product promises within some seconds on a machine of its own.

    The tests' machine runs other tests meanwhile; red is what misses the promise by far. `LENIENCY=1` takes it exactly.
    """
    return seconds * _LENIENCY
