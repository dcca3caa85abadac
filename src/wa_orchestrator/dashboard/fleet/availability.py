"""How a session's last day was: quarter hours for its strip, and for what share of the time it was connected.

Only what a session was meant to do counts. Being stopped, restarted or not yet linked is "off": neither good nor bad.
From the start of its worker on, a session that is linked was meant to be connected.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from wa_orchestrator.dashboard.html.charts import QUARTERS
from wa_orchestrator.domain.session import Reason, State

DAY_MS: Final = 86_400_000
QUARTER_MS: Final = DAY_MS // QUARTERS
#: What lasted no longer than this does not colour a quarter of an hour.
BRIEF_MS: Final = 60_000
#: Which of two beats tells more.
_RANK: Final = {"off": 0, "good": 1, "warn": 2, "bad": 3}
_OF_STATE: Final = {State.CONNECTED: "good", State.DISCONNECTED: "warn", State.PENDING: "warn", State.FAILED: "bad"}
#: On its way up: what it was before still tells how it is.
_ON_THE_WAY: Final = frozenset({Reason.WAITING_FOR_TURN, Reason.STARTING, Reason.WAITING_FOR_PROXY})
#: Asked for, or gone together with the server: it says nothing of the session.
_NOT_ITS_OWN: Final = frozenset({Reason.RESTARTING, Reason.SERVER_STOPPED})


@dataclass(frozen=True, slots=True)
class Change:
    """A session's state from this instant on, and why."""

    at_ms: int
    state: State
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Day:
    """The last 24 hours of a session: 96 beats, and the share of the time it was connected; None if it never ran."""

    beats: Sequence[str]
    share: float | None


def day_of(changes: Sequence[Change], now_ms: int) -> Day:
    """Look at the changes of a session, oldest first."""
    begins = now_ms - DAY_MS
    quarters = [Counter[str]() for _ in range(QUARTERS)]
    last = "off"
    for start, end, last in _spans(changes, begins, now_ms):
        for number in range((start - begins) // QUARTER_MS, min(QUARTERS, -(-(end - begins) // QUARTER_MS))):
            from_ms = begins + number * QUARTER_MS
            quarters[number][last] += min(end, from_ms + QUARTER_MS) - max(start, from_ms)
    beats = [_worst(each) for each in quarters]
    beats[-1] = max(beats[-1], last, key=_RANK.__getitem__)  # how it is now is shown however short it lasts
    total = sum(quarters, Counter[str]())
    meant = total["good"] + total["warn"] + total["bad"]
    return Day(beats, total["good"] / meant if meant else None)


def _worst(spent_ms: Counter[str]) -> str:
    return max((beat for beat, ms in spent_ms.items() if ms > BRIEF_MS), key=_RANK.__getitem__, default="off")


def _spans(changes: Sequence[Change], begins: int, ends: int) -> Iterator[tuple[int, int, str]]:
    """Give from when to when a session was how, within a time; what is not known was off."""
    beat, since, linked = "off", begins, False
    for change in changes:
        at_ms = min(max(change.at_ms, begins), ends)
        if at_ms > since:
            yield since, at_ms, beat
            since = at_ms
        linked = change.state is State.CONNECTED or (linked and change.reason != Reason.LOGGED_OUT)
        beat = _beat(change, beat) if linked else "off"
    if ends > since:
        yield since, ends, beat


def _beat(change: Change, before: str) -> str:
    """Say how a change to a session that is linked to a phone is shown."""
    if change.reason in _NOT_ITS_OWN:
        return "off"
    if change.state is State.PENDING and change.reason in _ON_THE_WAY:
        if change.reason == Reason.STARTING and before == "off":
            return "warn"  # its worker runs: whatever it lacks now is its own
        return "off" if before == "good" else before
    return _OF_STATE.get(change.state, "off")
