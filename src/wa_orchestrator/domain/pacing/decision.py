"""Whether the next message of a phone may leave now: all limits at once, as one answer that names its reason.

The release script decides; this is its twin for estimates, and a test holds the two together.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from wa_orchestrator.domain.pacing.hours import day_bounds_ms, release_bounds_ms
from wa_orchestrator.domain.pacing.limits import MINUTE_MS, Pace
from wa_orchestrator.domain.pacing.wait_reasons import WaitReason


@dataclass(frozen=True, slots=True)
class SendNow:
    """Nothing stands in the way."""


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """It may leave at `at_ms` and not before; if nothing else changes it then does."""

    at_ms: int
    because: WaitReason


@dataclass(frozen=True, slots=True)
class WaitFor:
    """Something without a known end stands in the way."""

    because: WaitReason


Wait = WaitUntil | WaitFor


@dataclass(frozen=True, slots=True)
class Situation:
    """What is known of a phone and of its next message at the moment of the decision."""

    zone: ZoneInfo
    sent: Sequence[int] = ()
    """When this phone's messages of today and of the last minute left, in ascending order."""
    silent_until_ms: int = 0
    """The end of the pause that was drawn after the last one."""
    burst_until_ms: int = 0
    """Until then pauses are doubled."""
    waits: tuple[Wait, ...] = ()
    """What else it waits for: holds, a session that is offline, a schedule, a limit on new contacts."""


def decide(pace: Pace, situation: Situation, now_ms: int) -> SendNow | WaitUntil | WaitFor:
    """Decide whether the next message may leave at `now_ms`. Where several limits apply, the one that ends last is the
    answer, and it is stable: at that instant the answer is `SendNow` if nothing else has changed.
    """
    endless = {wait.because for wait in situation.waits if isinstance(wait, WaitFor)}
    if endless:
        return WaitFor(min(endless, key=_GRAVITY.index))
    at_ms, because = now_ms, WaitReason.NOTHING
    for wait in (WaitUntil(situation.silent_until_ms, WaitReason.PAUSE), *situation.waits):
        if isinstance(wait, WaitUntil) and wait.at_ms > at_ms:
            at_ms, because = wait.at_ms, wait.because
    while (limit := _first_limit(pace, situation, at_ms)) is not None:
        at_ms, because = limit.at_ms, limit.because
    return WaitUntil(at_ms, because) if at_ms > now_ms else SendNow()


#: Of several waits without an end, the first of these is named.
_GRAVITY = (
    WaitReason.BANNED_HOLD,
    WaitReason.HELD,
    WaitReason.SESSION_OFFLINE,
    WaitReason.REACHOUT_LOCKED,
    WaitReason.NEW_CHAT_CAP,
)


def _first_limit(pace: Pace, situation: Situation, at_ms: int) -> WaitUntil | None:
    """Return the limit that forbids a message to leave at `at_ms`, the most important one first."""
    sent, zone = situation.sent, situation.zone
    day = day_bounds_ms(at_ms, zone)
    if bisect_left(sent, day[1]) - bisect_left(sent, day[0]) >= pace.per_day:
        # Named for the day although the hours may end later: that is what a person can understand.
        return WaitUntil(max(day[1], release_bounds_ms(pace, day[1], zone)[0]), WaitReason.DAY_IS_FULL)
    opens_ms = release_bounds_ms(pace, at_ms, zone)[0]
    if opens_ms > at_ms:
        return WaitUntil(opens_ms, WaitReason.OUTSIDE_HOURS)
    if len(sent) >= pace.per_minute and sent[-pace.per_minute] + MINUTE_MS > at_ms:
        return WaitUntil(sent[-pace.per_minute] + MINUTE_MS, WaitReason.MINUTE_IS_FULL)
    return None
