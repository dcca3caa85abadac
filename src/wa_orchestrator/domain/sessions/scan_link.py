"""A one-time link by which somebody elsewhere links one session, and what its page shows at a moment."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from wa_orchestrator.domain.sessions.session import Reason, State

#: How long codes are shown after the person pressed the button; also how long an unopened link waits by default.
WINDOW_MS: Final = 10 * 60_000
#: The longest that an unopened link may wait.
LONGEST_MS: Final = 7 * 24 * 3_600_000
#: How often the button may be pressed: codes run out when nobody scans them.
MOST_TRIES: Final = 3
#: How many pairing codes a link asks WhatsApp for: each one rings on the phone.
MOST_PAIRING_CODES: Final = 5


class GuestStage(StrEnum):
    """What the page of a link shows."""

    START = "start"
    """What linking allows, who asks, how to undo it. No code before the person asks for one."""
    WAIT = "wait"
    """A code is on its way."""
    CODE = "code"
    """A QR code, or a pairing code."""
    AGAIN = "again"
    """WhatsApp renewed the code after a scan: the same once more."""
    RAN_OUT = "ran_out"
    """Nobody scanned the codes; the button shows new ones."""
    DONE = "done"
    """The phone is linked; the link is used up."""
    GONE = "gone"
    """Expired, used before, withdrawn or never made: they look alike."""


@dataclass(frozen=True, slots=True)
class GuestFacts:
    """A link that exists, and its session. Instants in ms; 0 = never."""

    made_at: int
    started_at: int
    tries: int
    connected_at: int
    status: State
    reason: Reason | None
    has_code: bool


def stage_of(facts: GuestFacts) -> GuestStage:
    """Decide what the page shows. One success ends the link, whatever becomes of the session afterwards."""
    if facts.connected_at >= facts.made_at:
        return GuestStage.DONE if facts.started_at else GuestStage.GONE
    if not facts.started_at:
        return GuestStage.START
    if needs_start(facts.status, facts.reason):
        return GuestStage.RAN_OUT if facts.tries < MOST_TRIES else GuestStage.GONE
    if facts.status is State.QR_READY and facts.has_code:
        return GuestStage.AGAIN if facts.reason is Reason.SCAN_AGAIN else GuestStage.CODE
    if facts.status in (State.QR_READY, State.PENDING):
        return GuestStage.WAIT
    return GuestStage.GONE  # stopped, failed for another reason: only the operator can help


def needs_start(status: State, reason: Reason | None) -> bool:
    """Whether the session shows no codes any more because nobody scanned them."""
    return status is State.FAILED and reason is Reason.QR_EXPIRED
