"""Notices when Redis' clock was set, by comparing it with the monotonic clock of this process."""

import math
import time
from dataclasses import dataclass
from typing import Final

#: Differences up to this are the time that a call took, or a clock that is corrected gradually.
TOLERANCE_MS: Final = 2_000
#: Steps that are remembered. What was stored before them is over by any clock.
_MOST_STEPS: Final = 64


@dataclass(slots=True)
class _Era:
    """The time between two steps, in which Redis' clock was ahead of the monotonic one by `ahead_ms`."""

    ahead_ms: int
    begin_ms: float
    end_ms: float = math.inf


class ClockSteps:
    """The last steps of Redis' clock. Instants that it jumped over have not come: a pause that ended there goes on."""

    def __init__(self) -> None:
        self._eras: list[_Era] = []

    def observe(self, now_ms: int) -> bool:
        """Note Redis' time. Return whether its clock was set since the last call."""
        monotonic_ms = int(self.monotonic_s() * 1000)
        ahead_ms = now_ms - monotonic_ms
        if not self._eras:
            self._eras.append(_Era(ahead_ms, -math.inf))
            return False
        current = self._eras[-1]
        if abs(ahead_ms - current.ahead_ms) <= TOLERANCE_MS:
            current.ahead_ms = ahead_ms
            return False
        current.end_ms = monotonic_ms + current.ahead_ms
        self._eras = [*self._eras[-_MOST_STEPS:], _Era(ahead_ms, now_ms)]
        return True

    def monotonic_s(self) -> float:
        """Return the time by a clock that nobody sets."""
        return time.monotonic()

    def true_end(self, begin_ms: int, end_ms: int) -> int:
        """Return when a pause ends, by the clock of now, that began and was to end at these instants of its own."""
        for era in reversed(self._eras):
            if era.begin_ms <= begin_ms < era.end_ms:
                return end_ms + self._eras[-1].ahead_ms - era.ahead_ms
        return end_ms

    def jumped_ms(self, now_ms: int, within_ms: int) -> int:
        """Return how far the clock has jumped ahead within this span of true time: it reaches back by so much more."""
        longest_ms = 0
        for era in self._eras[:-1]:
            jump_ms = self._eras[-1].ahead_ms - era.ahead_ms
            if era.end_ms + jump_ms > now_ms - within_ms:
                longest_ms = max(longest_ms, jump_ms)
        return longest_ms
