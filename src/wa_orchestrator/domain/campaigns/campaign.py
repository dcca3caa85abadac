"""The states of a campaign, when it pauses by itself, and the ids of its messages."""

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

#: From this many written to on, people who ask to stop are counted.
COUNTED_FROM: Final = 50
#: The share of those written to that may ask to stop before the campaign pauses.
MOST_OPT_OUTS: Final = 0.03
_ID_BYTES: Final = 9


class CampaignState(StrEnum):
    """The state of a campaign."""

    DRAFT = "draft"
    """Nobody is written to before somebody starts it. Start or cancel it."""
    SENDING = "sending"
    """Messages are handed to the queues, a few at a time. Pause or cancel it."""
    PAUSED = "paused"
    """By a person, or by itself; the reason says which. Resume or cancel it."""
    DONE = "done"
    """Nobody waits and nothing is on its way."""
    CANCELLED = "cancelled"
    """Who was not written to by then is not written to."""


class CampaignAction(StrEnum):
    """What happens to a campaign; the last one by itself."""

    START = "start"
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    FINISH = "finish"


class PauseReason(StrEnum):
    """Why a campaign is paused."""

    OPERATOR = "OPERATOR"
    """A person paused it."""
    OPT_OUTS = "OPT_OUTS"
    """Too many asked to stop. Look at the text and at where the recipients come from."""
    BAN_SIGNAL = "BAN_SIGNAL"
    """WhatsApp banned or restricted one of its sessions."""
    NO_SENDER = "NO_SENDER"
    """None of its sessions can send, and none comes back by itself."""
    RESTORED = "RESTORED"
    """A backup without a journal was restored: some may have got the message after it was made."""


S, A = CampaignState, CampaignAction

TRANSITIONS: Final[Mapping[tuple[CampaignState, CampaignAction], CampaignState]] = {
    (S.DRAFT, A.START): S.SENDING,
    (S.SENDING, A.PAUSE): S.PAUSED,
    (S.PAUSED, A.RESUME): S.SENDING,
    (S.DRAFT, A.CANCEL): S.CANCELLED,
    (S.SENDING, A.CANCEL): S.CANCELLED,
    (S.PAUSED, A.CANCEL): S.CANCELLED,
    (S.SENDING, A.FINISH): S.DONE,
}
#: A repeated request changes nothing.
IGNORED: Final = frozenset(
    {(S.SENDING, A.START), (S.SENDING, A.RESUME), (S.PAUSED, A.PAUSE), (S.CANCELLED, A.CANCEL), (S.DONE, A.FINISH)}
)
#: Nothing more is sent.
ENDED: Final = frozenset({S.DONE, S.CANCELLED})
#: What was handed to the queues and has not left is taken back.
WITHDRAWN: Final = frozenset({S.PAUSED, S.CANCELLED})


def after(state: CampaignState, action: CampaignAction) -> CampaignState | None:
    """Return the state after an action; None if it cannot happen in this state."""
    return state if (state, action) in IGNORED else TRANSITIONS.get((state, action))


def pause_reason(*, written: int, opted_out: int, new_bans: int, senders: int) -> PauseReason | None:
    """Decide whether a campaign pauses by itself.

    `new_bans` are sessions that were banned since a person last let it go on; `senders` those that can send, or will.
    """
    if new_bans:
        return PauseReason.BAN_SIGNAL
    if written >= COUNTED_FROM and opted_out > written * MOST_OPT_OUTS:
        return PauseReason.OPT_OUTS
    return None if senders else PauseReason.NO_SENDER


def message_bytes(campaign_id: str, row: int, attempt: int) -> bytes:
    """Return what the id of a recipient's message is made of.

    It follows from the recipient, so that after any crash or restore one look tells whether the message exists.
    """
    return hashlib.sha256(f"{campaign_id} {row} {attempt}".encode()).digest()[:_ID_BYTES]
