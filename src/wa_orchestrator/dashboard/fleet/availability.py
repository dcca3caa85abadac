"""Availability of a session in the last 24 hours: quarter hours for its strip, and the share of time connected.

Only time in which a session should have been connected counts: a linked session, from the start of its worker on.
Stopped, restarted or not yet linked is "off": neither good nor bad. Unlinked on its phone is an outage until it is
linked again.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from wa_orchestrator.dashboard.html.charts import QUARTERS
from wa_orchestrator.domain.sessions.session import Reason, State

DAY_MS: Final = 86_400_000
QUARTER_MS: Final = DAY_MS // QUARTERS
#: A shorter interruption does not colour its quarter of an hour.
BRIEF_MS: Final = 60_000
#: The higher rank wins within a quarter of an hour.
_RANK: Final = {"off": 0, "good": 1, "warn": 2, "bad": 3}
_BEATS: Final = {State.CONNECTED: "good", State.DISCONNECTED: "warn", State.PENDING: "warn", State.FAILED: "bad"}
#: Starting: the colour before still applies.
_STARTING: Final = frozenset({Reason.WAITING_FOR_TURN, Reason.STARTING, Reason.WAITING_FOR_PROXY})
#: Requested, or caused by the server: not the session's own failure.
_NOT_COUNTED: Final = frozenset({Reason.RESTARTING, Reason.SERVER_STOPPED})
#: An operator unlinked it; after a removal on the phone the reason is LOGGED_OUT.
_LINKS_ANEW: Final = frozenset({Reason.SCAN_THE_CODE, Reason.SCAN_AGAIN, Reason.ENTER_THE_CODE})


@dataclass(frozen=True, slots=True)
class Change:
    """A session's state from this time on, and its reason."""

    at_ms: int
    state: State
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Day:
    """The last 24 hours of a session: 96 beats, and the share of time connected; None if it never ran."""

    beats: Sequence[str]
    share: float | None


def day_of(changes: Sequence[Change], now_ms: int) -> Day:
    """Compute the last 24 hours from a session's changes, oldest first."""
    begins = now_ms - DAY_MS
    quarters = [Counter[str]() for _ in range(QUARTERS)]
    last = "off"
    for start, end, last in _spans(changes, begins, now_ms):
        for number in range((start - begins) // QUARTER_MS, min(QUARTERS, -(-(end - begins) // QUARTER_MS))):
            from_ms = begins + number * QUARTER_MS
            quarters[number][last] += min(end, from_ms + QUARTER_MS) - max(start, from_ms)
    beats = [_worst(each) for each in quarters]
    beats[-1] = max(beats[-1], last, key=_RANK.__getitem__)  # the current state is shown, however short
    total = sum(quarters, Counter[str]())
    meant = total["good"] + total["warn"] + total["bad"]
    return Day(beats, total["good"] / meant if meant else None)


def _worst(spent_ms: Counter[str]) -> str:
    return max((beat for beat, ms in spent_ms.items() if ms > BRIEF_MS), key=_RANK.__getitem__, default="off")


def _spans(changes: Sequence[Change], begins: int, ends: int) -> Iterator[tuple[int, int, str]]:
    """Yield (start, end, beat) within a period; unknown time is off."""
    beat, since, linked = "off", begins, False
    for change in changes:
        at_ms = min(max(change.at_ms, begins), ends)
        if at_ms > since:
            yield since, at_ms, beat
            since = at_ms
        linked = change.state is State.CONNECTED or (linked and change.reason not in _LINKS_ANEW)
        beat = _beat(change, beat) if linked else "off"
    if ends > since:
        yield since, ends, beat


def _beat(change: Change, before: str) -> str:
    if change.reason == Reason.LOGGED_OUT and change.state is not State.STOPPED:
        return "bad"
    if change.reason in _NOT_COUNTED:
        return "off"
    if change.state is State.PENDING and change.reason in _STARTING:
        if change.reason == Reason.STARTING and before == "off":
            return "warn"  # its worker runs: from now on it should be connected
        return "off" if before == "good" else before
    return _BEATS.get(change.state, "off")
