"""What to do after a failed attempt: retry with a growing backoff, give up, set aside, slow the phone down or stop the
session.
"""

from dataclasses import dataclass
from typing import assert_never

from wa_orchestrator.domain.messages.failures import Failure, Remedy

BACKOFF_BASE_MS = 5_000
BACKOFF_MAX_MS = 300_000
SLOWDOWN_BASE_MS = 30_000
#: A message with which so many workers have died is given up: it may be what kills them. Not fewer, because two kills
#: from outside do hit one message now and then; not more, because after as many restarts the session is given up.
MOST_CRASHES = 3


@dataclass(frozen=True, slots=True)
class Retry:
    """Back to the queue, with the same WhatsApp id, not before `backoff_ms` have passed."""

    backoff_ms: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The message becomes a dead letter."""


@dataclass(frozen=True, slots=True)
class SlowDown:
    """Back to the queue; the phone sends nothing for `pause_ms`."""

    pause_ms: int


@dataclass(frozen=True, slots=True)
class StopSession:
    """The account is at fault: the message waits in its queue, and the session sends nothing more."""


@dataclass(frozen=True, slots=True)
class PutAside:
    """The message waits until WhatsApp lets the phone write to new contacts again."""


def after_failure(
    failure: Failure, attempts: int, *, max_attempts: int, jitter: float, slowdowns: int = 0
) -> Retry | GiveUp | SlowDown | StopSession | PutAside:
    """Decide what to do with a message whose `attempts`-th attempt failed (1 for the first).

    `max_attempts` is the setting `MAX_ATTEMPTS`; `jitter` is as for `backoff_ms`. `slowdowns` is how often WhatsApp has
    asked the phone to slow down since it last took a message.
    """
    match failure.remedy:
        case Remedy.NEVER:
            return GiveUp()
        case Remedy.STOP_SESSION:
            return StopSession()
        case Remedy.SET_ASIDE:
            return PutAside()
        case Remedy.SLOW_DOWN:
            return SlowDown(backoff_ms(slowdowns + 1, jitter, base_ms=SLOWDOWN_BASE_MS))
        case Remedy.HAND_BACK:
            return Retry(0)
        case Remedy.RETRY_SAME_ID | Remedy.REFRESH_THEN_RETRY:
            return GiveUp() if attempts >= max_attempts else Retry(backoff_ms(attempts, jitter))
    assert_never(failure.remedy)


def backoff_ms(attempts: int, jitter: float, *, base_ms: int = BACKOFF_BASE_MS) -> int:
    """Return the pause after the `attempts`-th failed attempt: it doubles each time, up to five minutes.

    `jitter` in [0, 1) spreads it by a quarter to either side.
    """
    doublings = min(attempts - 1, BACKOFF_MAX_MS.bit_length())  # keeps the power small after many attempts
    mean_ms = min(base_ms << doublings, BACKOFF_MAX_MS)
    return int(mean_ms * (0.75 + 0.5 * jitter))
