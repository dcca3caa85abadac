"""When each message of a phone's queue leaves: `decide` wherever a limit is reached, and an addition in between.

`decide` is asked wherever a day ends, a limit is reached or the hours close. Between two such instants messages follow
one another at the mean pause, so a queue of thousands costs little more than one decision a day.
"""

from bisect import bisect_left
from dataclasses import dataclass, replace

from wa_orchestrator.domain.pacing.decision import SendNow, Situation, Wait, WaitUntil, decide
from wa_orchestrator.domain.pacing.hours import day_bounds_ms, release_bounds_ms
from wa_orchestrator.domain.pacing.limits import MINUTE_MS, Pace
from wa_orchestrator.domain.pacing.wait_reasons import WaitReason

#: Waits that an estimate names although others come first: people plan by them.
_CALENDAR = frozenset({WaitReason.DAY_IS_FULL, WaitReason.OUTSIDE_HOURS})
#: Waits that every queue has.
_PASSING = frozenset({WaitReason.NOTHING, WaitReason.PAUSE, WaitReason.MINUTE_IS_FULL})


@dataclass(frozen=True, slots=True)
class Eta:
    """When a message will leave; `None` when that depends on a person or on WhatsApp."""

    at_ms: int | None
    because: WaitReason

    def deferred(self) -> "Eta":
        """Return it as the eta of a message that waits because the day was full."""
        return self if self.at_ms is None else Eta(self.at_ms, WaitReason.DAY_IS_FULL)


@dataclass(frozen=True, slots=True)
class Turn:
    """The place of a message that joins its phone's queue at an instant of its own: scheduled, or deferred."""

    due_ms: int
    before: int
    """How many others of its phone join the queue before it."""
    same: int
    """How many of these join at the same instant."""
    first_ms: int
    """When the first of them all joins."""


class Forecast:
    """The etas of one phone's queue, computed as far as somebody asked."""

    def __init__(
        self, pace: Pace, situation: Situation, now_ms: int, *, service_ms: int = 0, in_flight: bool = False
    ) -> None:
        """Forecast from `now_ms`. Each message leaves `service_ms` plus a mean pause after the one before.

        While a message is `in_flight`, the situation is the one after it: its silence ends when that one's pause will.
        """
        self.in_flight = in_flight
        self._pace = pace
        self._situation = situation
        self._now_ms = now_ms
        self._service_ms = service_ms
        self._sent = list(situation.sent)
        self._sent_before = len(self._sent)
        self._reasons: list[WaitReason] = []
        self._calendar: WaitReason | None = None
        self._window = (0, 0)
        self._left_today = 0
        self._later: dict[int, Forecast] = {}
        first = self._estimate(situation, now_ms)
        self._endless = first if first.at_ms is None else None
        if first.at_ms is not None:
            self._add(first.at_ms, first.because)

    def eta(self, ahead: int, now_ms: int = 0) -> Eta:
        """Return when a message leaves that has `ahead` others of its phone before it, one in flight among them.

        A forecast may be some seconds old: what should have left by then leaves at `now_ms`.
        """
        if self._endless is not None:
            return self._endless
        index = max(0, ahead - self.in_flight)
        while len(self._reasons) <= index:
            self._extend()
        at_ms, because = self._sent[self._sent_before + index], self._reasons[index]
        if self.in_flight and because is WaitReason.PAUSE:
            because = WaitReason.IN_FLIGHT
        return Eta(max(at_ms, now_ms), because)

    def eta_after(self, wait: Wait) -> Eta:
        """Return when a message leaves that has a wait of its own and does not stand in the queue until that ends."""
        situation = replace(self._situation, waits=(*self._situation.waits, wait))
        return self._estimate(situation, self._now_ms)

    def eta_of_turn(self, turn: Turn, ahead: int) -> Eta:
        """Return when a message leaves that joins the queue at its own instant; `ahead` are in the queue now.

        It leaves at that instant, or after all that come before it: they take days where they are more than a day's
        limit. Each of the three estimates ignores something that delays the message, so the latest is the answer.
        """
        own = self.eta_after(WaitUntil(turn.due_ms, WaitReason.SCHEDULED))
        estimates = [own, self.eta(ahead + turn.before), self._from(turn.first_ms).eta(turn.before)]
        if turn.same:
            estimates.append(self._from(turn.due_ms).eta(turn.same))
        return max(estimates, key=lambda each: each.at_ms or 0)

    def _from(self, at_ms: int) -> "Forecast":
        """Return the forecast of a queue that begins at an instant."""
        if at_ms not in self._later:
            situation = replace(self._situation, waits=(*self._situation.waits, WaitUntil(at_ms, WaitReason.SCHEDULED)))
            self._later[at_ms] = Forecast(self._pace, situation, self._now_ms, service_ms=self._service_ms)
        return self._later[at_ms]

    def _estimate(self, situation: Situation, from_ms: int) -> Eta:
        """Return when a message leaves that could leave from `from_ms` on."""
        decision = decide(self._pace, situation, from_ms)
        if isinstance(decision, SendNow):
            return Eta(from_ms, WaitReason.NOTHING)
        return Eta(decision.at_ms if isinstance(decision, WaitUntil) else None, decision.because)

    def _extend(self) -> None:
        """Add the message after the last one that was added."""
        pause_ms = self._pace.mean_pause_after_ms(self._sent[-1], self._situation.burst_until_ms)
        earliest_ms = self._sent[-1] + self._service_ms + pause_ms
        at_ms, because = earliest_ms, WaitReason.NOTHING
        if len(self._sent) >= self._pace.per_minute:
            minute_ends_ms = self._sent[-self._pace.per_minute] + MINUTE_MS
            if minute_ends_ms > at_ms:
                at_ms, because = minute_ends_ms, WaitReason.MINUTE_IS_FULL
        if self._left_today > 0 and at_ms < self._window[1]:
            self._add(at_ms, because)
            return
        following = replace(self._situation, sent=self._sent, silent_until_ms=0, waits=())
        decided = self._estimate(following, earliest_ms)
        self._add(decided.at_ms or earliest_ms, decided.because)  # without waits there is always an instant

    def _add(self, at_ms: int, because: WaitReason) -> None:
        """Add a message that leaves at `at_ms`, and note until when additions alone will do."""
        named = because
        if self._reasons and because in _PASSING:
            named = self._calendar or WaitReason.BEHIND_OTHERS
        self._reasons.append(named)
        if because in _CALENDAR:
            self._calendar = because
        self._sent.append(at_ms)
        if at_ms < self._window[1]:
            self._left_today -= 1
            return
        day = day_bounds_ms(at_ms, self._situation.zone)
        hours = release_bounds_ms(self._pace, at_ms, self._situation.zone)
        self._window = (max(day[0], hours[0]), min(day[1], hours[1]))
        self._left_today = self._pace.per_day - (len(self._sent) - bisect_left(self._sent, day[0]))
