"""Measures time on a clock that can be set (Redis') by a monotonic one: how much has passed since an instant."""

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Final

#: The foreign clock shows whole milliseconds, and its answer takes some to arrive.
_ONE_INSTANT_S: Final = 0.01


@dataclass(slots=True)
class ClockTrace:
    """What a foreign clock showed at moments of our own monotonic one, for as long as `keep_s`.

    A time that two readings of the foreign clock enclose may have been a step of it. The trace tells the time that has
    passed at least.
    """

    keep_s: float
    _readings: deque[tuple[int, float]] = field(default_factory=deque)

    def note(self, shown_ms: int, own_s: float) -> None:
        """Record what the clock shows now. Of two readings in one instant the later counts: they are no step back."""
        if self._readings:
            last_ms, read_at = self._readings[-1]
            if shown_ms == last_ms and own_s - read_at < _ONE_INSTANT_S:
                self._readings.pop()
        self._readings.append((shown_ms, own_s))
        while own_s - self._readings[0][1] > self.keep_s:
            self._readings.popleft()

    def was_set_back(self, shown_ms: int) -> bool:
        """Whether the clock was set back since the latest reading, by what it shows now."""
        return bool(self._readings) and shown_ms < self._readings[-1][0]

    def clear(self) -> None:
        """Forget everything: what the clock did meanwhile is not known."""
        self._readings.clear()

    def elapsed_ms(self, since_ms: int, own_s: float) -> float:
        """Return how much time has passed at least since the clock showed `since_ms`.

        At the first of the latest readings that are not before it, that instant was in the past. Readings before a step
        back say nothing: the clock may have shown that instant twice.
        """
        passed_at, later_ms = own_s, math.inf
        for shown_ms, read_at in reversed(self._readings):
            if not since_ms <= shown_ms < later_ms:
                break
            passed_at, later_ms = read_at, shown_ms
        return (own_s - passed_at) * 1000
