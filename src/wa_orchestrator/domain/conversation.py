"""A conversation: what one account and one contact, or a group, wrote to each other."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_PREFIX: Final = "c_"


class ConversationState(StrEnum):
    """Where a conversation is listed. It follows from what was read, answered and closed; nothing sets it."""

    WAITING = "waiting"
    """The contact wrote, and nobody has read or answered it."""
    OPEN = "open"
    """Everything was read or answered."""
    CLOSED = "closed"
    """A person closed it. It opens again when the contact writes."""


class ReplyObstacle(StrEnum):
    """Why a conversation cannot be answered from its session."""

    OPTED_OUT = "OPTED_OUT"
    """The contact asked for no more messages."""
    BANNED = "BANNED"
    """WhatsApp banned the account."""
    SESSION_GONE = "SESSION_GONE"
    """The session was deleted."""


@dataclass(frozen=True, slots=True)
class ReplyFacts:
    """What decides whether a conversation can be answered."""

    opted_out: bool
    session_exists: bool
    banned: bool


def obstacle(facts: ReplyFacts) -> ReplyObstacle | None:
    """Return why nothing can be answered; None if it can. What a person asked for comes first."""
    if facts.opted_out:
        return ReplyObstacle.OPTED_OUT
    if not facts.session_exists:
        return ReplyObstacle.SESSION_GONE
    return ReplyObstacle.BANNED if facts.banned else None


@dataclass(frozen=True, slots=True)
class Device:
    """A session of an account that may answer in a conversation; its phone is '' where that is not known any more."""

    session: str
    phone: str
    connected: bool


def answering(home: Device | None, siblings: Sequence[Device]) -> Device | None:
    """Return the session that answers: the one that has the conversation, or another while that one is not connected.

    To the contact it is the same number. None if the account has no session any more.
    """
    every = [*([home] if home else ()), *siblings]
    return next((each for each in every if each.connected), every[0] if every else None)


def contact_name(phone: str, lid: str, group: str) -> str:
    """Return what a conversation is kept under: the group, else the phone, else `lid:…`; '' if there is none."""
    return group or phone or (f"lid:{lid}" if lid else "")


def id_of(session: str, contact: str) -> str:
    """Return our id of a conversation."""
    return _PREFIX + base64.urlsafe_b64encode(f"{session} {contact}".encode()).decode().rstrip("=")


def parse_id(text: str) -> tuple[str, str] | None:
    """Return the session and the contact of the conversation with this id; None for what is no such id."""
    coded = text.removeprefix(_PREFIX)
    try:
        session, _, contact = base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4)).decode().partition(" ")
    except ValueError:
        return None
    return (session, contact) if contact and id_of(session, contact) == text else None
