"""Whether a session may have the phone that its worker reports: a worker's word alone moves no phone.

A worker may have been taken over through a hostile message. So what it reports is compared with what the server knows
by itself: the phone on record, codes that it showed, and the phones that people named.
"""

from dataclasses import dataclass
from enum import Enum, auto


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """What the server knows about a session whose worker reports CONNECTED."""

    phone: str
    """The phone on record: it was provisioned for it, or linked to it before; '' if there is none."""
    is_linked: bool
    """It has been connected since its credentials were made."""
    has_code: bool
    """The server recorded a code since its credentials were made, and nobody has used it."""
    named_phone: str
    """The phone that a person named for it: confirmed, restored, or asked a pairing code for; '' if none."""
    awaits_person: bool
    """It has failed because of its phone, and nobody has confirmed that."""
    others: int
    """Other sessions that have the reported phone."""
    bound_elsewhere: bool
    """The reported phone has a proxy of its own, which is not the session's."""


class PhoneVerdict(Enum):
    """What a reported phone leads to."""

    ACCEPTED = auto()
    CHANGED = auto()
    """The session fails, and a person confirms the phone."""
    IGNORED = auto()
    """It has failed already; whatever its worker says now changes nothing."""


def judge(reported: str, facts: LinkFacts) -> PhoneVerdict:
    """Decide whether the session may have the reported phone."""
    if facts.awaits_person:
        return PhoneVerdict.IGNORED
    if reported in (facts.phone, facts.named_phone):
        return PhoneVerdict.ACCEPTED
    if facts.others or facts.is_linked:
        return PhoneVerdict.CHANGED
    # Without a code it may be an imported directory, or Redis has lost its data: then there is neither a phone on
    # record nor a binding that the session could be after.
    is_new = not facts.phone and not facts.bound_elsewhere
    return PhoneVerdict.ACCEPTED if facts.has_code or is_new else PhoneVerdict.CHANGED
