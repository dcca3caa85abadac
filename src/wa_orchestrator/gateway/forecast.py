"""When the n-th message of a phone will leave: `domain.pacing.eta` for a whole queue, at the price of an addition each.

`pacing` decides wherever a day ends, a limit is reached or the hours close; between two such decisions messages follow
one another at the mean pause, which is plain arithmetic. A test holds both to the same answers.
"""

from bisect import bisect_left
from dataclasses import replace

from wa_orchestrator.domain import pacing
from wa_orchestrator.domain.pacing import MINUTE_MS, Because, Eta, Pace, Situation, WaitFor, WaitUntil

_CALENDAR = frozenset({Because.DAY_IS_FULL, Because.OUTSIDE_HOURS})
_PASSING = frozenset({Because.NOTHING, Because.PAUSE, Because.MINUTE_IS_FULL})


class Forecast:
    """The etas of one phone's queue, worked out as far as somebody asked."""

    def __init__(self, pace: Pace, situation: Situation, now_ms: int, *, service_ms: int = 0) -> None:
        self._pace = pace
        self._situation = situation
        self._now_ms = now_ms
        self._service_ms = service_ms
        self._sent = list(situation.sent)
        self._given = len(self._sent)
        self._told: list[Because] = []
        self._cause = Because.NOTHING
        self._endless: Because | None = None
        self._window = (0, 0)
        self._left_today = 0
        first = pacing.decide(pace, situation, now_ms)
        match first:
            case WaitFor(because):
                self._endless = because
            case WaitUntil(at_ms, because):
                self._note(at_ms, because)
            case _:
                self._note(now_ms, Because.NOTHING)

    def eta(self, position: int) -> Eta:
        """Say when the message at `position` (1 is the next one) leaves, and what it waits for."""
        if self._endless is not None:
            return Eta(None, self._endless)
        while len(self._told) < position:
            self._extend()
        return Eta(self._sent[self._given + position - 1], self._told[position - 1])

    def scheduled(self, due_ms: int) -> Eta:
        """Say when a message leaves that may not leave before `due_ms`."""
        decision = pacing.decide(self._pace, replace(self._situation, scheduled_for_ms=due_ms), self._now_ms)
        match decision:
            case WaitFor(because):
                return Eta(None, because)
            case WaitUntil(at_ms, because):
                return Eta(at_ms, because)
            case _:
                return Eta(self._now_ms, Because.NOTHING)

    def _extend(self) -> None:
        pause_ms = self._pace.mean_pause_after_ms(self._sent[-1], self._situation.burst_until_ms)
        earliest_ms = self._sent[-1] + self._service_ms + pause_ms
        at_ms, because = earliest_ms, Because.NOTHING
        if len(self._sent) >= self._pace.per_minute:
            minute_ends_ms = self._sent[-self._pace.per_minute] + MINUTE_MS
            if minute_ends_ms > at_ms:
                at_ms, because = minute_ends_ms, Because.MINUTE_IS_FULL
        if self._left_today > 0 and at_ms < self._window[1]:
            self._note(at_ms, because)
            return
        following = replace(self._situation, sent=self._sent, silent_until_ms=0, holds=())
        decision = pacing.decide(self._pace, following, earliest_ms)
        if isinstance(decision, WaitUntil):
            self._note(decision.at_ms, decision.because)
        else:
            self._note(earliest_ms, Because.NOTHING)

    def _note(self, at_ms: int, because: Because) -> None:
        """Write down that a message leaves then, and how long plain arithmetic will do after it."""
        told = because
        if self._told and because in _PASSING:
            told = self._cause if self._cause in _CALENDAR else Because.BEHIND_OTHERS
        self._told.append(told)
        if because in _CALENDAR:
            self._cause = because
        self._sent.append(at_ms)
        if at_ms < self._window[1]:
            self._left_today -= 1
            return
        day = pacing.day_bounds_ms(at_ms, self._situation.zone)
        hours = pacing.release_bounds_ms(self._pace, at_ms, self._situation.zone)
        self._window = (max(day[0], hours[0]), min(day[1], hours[1]))
        self._left_today = self._pace.per_day - (len(self._sent) - bisect_left(self._sent, day[0]))
