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
    """The time between two steps, by the monotonic clock, and by how much Redis' clock was ahead of it.

    Small steps lie within the tolerance and add up: a pause may have begun at any difference between.
    """

    begin_ms: float
    """When the time before was last seen: the step was somewhere between that and the first look at this one."""
    end_ms: int
    ahead_ms: int
    """As last seen."""
    least_ahead_ms: int
    most_ahead_ms: int

    def last_showed(self, instant_ms: int) -> int | None:
        """Return when Redis' clock can have shown this instant for the last time in this era; None if never."""
        first_ms, last_ms = instant_ms - self.most_ahead_ms, instant_ms - self.least_ahead_ms
        return min(last_ms, self.end_ms) if first_ms <= self.end_ms and last_ms >= self.begin_ms else None


class ClockSteps:
    """The last steps of Redis' clock. Instants that it jumped over have not come: a pause that ended there goes on."""

    def __init__(self) -> None:
        self._eras: list[_Era] = []

    def observe(self, now_ms: int) -> bool:
        """Note Redis' time. Return whether its clock was set since the last call."""
        monotonic_ms = round(self.monotonic_s() * 1000)
        ahead_ms = now_ms - monotonic_ms
        if not self._eras:
            self._eras.append(_Era(-math.inf, monotonic_ms, ahead_ms, ahead_ms, ahead_ms))
            return False
        current = self._eras[-1]
        seen_ms, current.end_ms = current.end_ms, monotonic_ms
        if abs(ahead_ms - current.ahead_ms) <= TOLERANCE_MS:
            current.ahead_ms = ahead_ms
            current.least_ahead_ms = min(current.least_ahead_ms, ahead_ms)
            current.most_ahead_ms = max(current.most_ahead_ms, ahead_ms)
            return False
        self._eras = [*self._eras[-_MOST_STEPS:], _Era(seen_ms, monotonic_ms, ahead_ms, ahead_ms, ahead_ms)]
        return True

    def monotonic_s(self) -> float:
        """Return the time by a clock that nobody sets."""
        return time.monotonic()

    def true_end(self, begin_ms: int, end_ms: int) -> int:
        """Return when a pause ends, by the clock of now, that began and was to end at these instants of its own.

        A clock that was set back shows an instant again. The pause counts from the last time at which it can have
        begun: it is never too short, and, because that time is past, never longer than one pause from the last step.
        """
        if not self._eras:
            return end_ms
        *past, current = self._eras
        length_ms = end_ms - begin_ms
        began_ms = (era.last_showed(begin_ms) for era in past)
        return max([end_ms, *(each + length_ms + current.ahead_ms for each in began_ms if each is not None)])

    def jumped_ms(self, now_ms: int, within_ms: int) -> int:
        """Return how far the clock has jumped ahead within this span of true time: it reaches back by so much more."""
        if not self._eras:
            return 0
        *past, current = self._eras
        recent = (era for era in past if era.end_ms + current.ahead_ms > now_ms - within_ms)
        return max([0, *(current.ahead_ms - era.least_ahead_ms for era in recent)])
