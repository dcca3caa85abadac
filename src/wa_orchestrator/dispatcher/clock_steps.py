"""Notices when Redis' clock was set, by comparing it with the monotonic clock of this process."""

import time
from typing import Final

#: Differences up to this are the time that a call took, or a clock that is corrected gradually.
TOLERANCE_MS: Final = 2_000


class ClockSteps:
    """The last step of Redis' clock. Instants that it jumped over have not come: a pause that ended there goes on."""

    def __init__(self) -> None:
        self._last: tuple[int, float] | None = None
        self._left_ms = 0
        self._reached_ms = 0

    def observe(self, now_ms: int) -> bool:
        """Note Redis' time. Return whether its clock was set since the last call."""
        monotonic_s = self.monotonic_s()
        before, self._last = self._last, (now_ms, monotonic_s)
        if before is None:
            return False
        expected_ms = before[0] + int((monotonic_s - before[1]) * 1000)
        if abs(now_ms - expected_ms) <= TOLERANCE_MS:
            return False
        self._left_ms, self._reached_ms = expected_ms, now_ms
        return True

    def monotonic_s(self) -> float:
        """Return the time by a clock that nobody sets."""
        return time.monotonic()

    def true_end(self, end_ms: int) -> int:
        """Return when a pause ends that was drawn to end at `end_ms`: later, if the clock has jumped over its end."""
        if self._left_ms < end_ms < self._reached_ms:
            return end_ms + self._reached_ms - self._left_ms
        return end_ms
