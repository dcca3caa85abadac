"""Rates of requests, counted in memory: by API key, by worker, and by address for those who show neither.

Each process counts for itself. Sends are counted in Redis instead, over all gateways.
"""

import math
import time
from typing import Final

from wa_orchestrator.errors import Refused

#: Names that are remembered. One that is forgotten begins anew, which is no loss after a minute without requests.
_MOST_NAMES: Final = 20_000
_MINUTE_S: Final = 60.0


class Rates:
    """Counts requests by name: a limit per minute, which may be used up at once."""

    def __init__(self) -> None:
        self._arrivals: dict[str, float] = {}
        """When each name has its whole minute again."""

    def spend(self, name: str, per_minute: int, now: float | None = None, *, amount: int = 1) -> float:
        """Count a request, or an amount such as bytes. Returns 0, or the seconds after which so much is allowed."""
        now = time.monotonic() if now is None else now
        gap = amount * _MINUTE_S / per_minute
        arrival = max(now, self._arrivals.get(name, 0.0))
        wait = arrival + gap - now - _MINUTE_S
        if wait > 1e-9:
            return wait
        if name not in self._arrivals and len(self._arrivals) >= _MOST_NAMES:
            self._forget(now)
        self._arrivals[name] = arrival + gap
        return 0.0

    def require(self, name: str, per_minute: int, *, amount: int = 1) -> None:
        """Count a request, or an amount; raises `Refused` with 429 if it is too much."""
        if wait := self.spend(name, per_minute, amount=amount):
            raise rate_limited(wait)

    def _forget(self, now: float) -> None:
        self._arrivals = {name: arrival for name, arrival in self._arrivals.items() if arrival > now}
        if len(self._arrivals) >= _MOST_NAMES:  # a flood from many addresses; their clients lose nothing
            self._arrivals.clear()


def rate_limited(wait_s: float) -> Refused:
    """Return the error for a request that is one too many."""
    seconds = max(1, math.ceil(wait_s))
    return Refused("RATE_LIMITED", f"Too many requests. Try again in {seconds} s.", 429, retryAfterS=seconds)
