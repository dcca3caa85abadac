"""Which session sends a message."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Why(StrEnum):
    """Why a session was chosen, or why none was."""

    ASKED_SESSION = "ASKED_SESSION"
    """The caller named the session."""
    ASKED_PHONE = "ASKED_PHONE"
    """The caller named the sending phone."""
    SPOKE_BEFORE = "SPOKE_BEFORE"
    """It last spoke with this recipient."""
    MOST_ROOM = "MOST_ROOM"
    """Of the connected ones it has the most room left today."""
    UNKNOWN_SESSION = "UNKNOWN_SESSION"
    """There is no session of that name. Check the name."""
    UNKNOWN_PHONE = "UNKNOWN_PHONE"
    """No session has that phone. Link it first."""
    PHONE_DIFFERS = "PHONE_DIFFERS"
    """The named session has another phone than the named one. Name one of the two."""
    NONE_USABLE = "NONE_USABLE"
    """No session is connected. Connect one."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A session as the router sees it."""

    session_id: str
    phone: str | None
    usable: bool
    """Connected and not on hold."""
    room_today: int
    """How many messages its phone may still send today, less what already waits."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the caller asked for: a session, a sending phone, both or neither."""

    session_id: str | None = None
    phone: str | None = None


@dataclass(frozen=True, slots=True)
class Chosen:
    """This session sends it."""

    session_id: str
    why: Why


@dataclass(frozen=True, slots=True)
class NoSender:
    """No session can send it."""

    why: Why


def choose(wish: Wish, candidates: Iterable[Candidate], affinity: str | None = None) -> Chosen | NoSender:
    """Choose the sender: the session asked for, else the phone asked for, else the session that last spoke with the
    recipient (`affinity`) if it is usable, else the usable one with the most room left today.

    What was asked for is never quietly replaced: a named session is chosen although it is offline, and its messages
    wait. Equals are told apart by id, so that the answer does not depend on the order of the candidates.
    """
    known = sorted(candidates, key=lambda candidate: candidate.session_id)
    if wish.session_id is not None:
        return _asked_session(wish.session_id, wish.phone, known)
    if wish.phone is not None:
        of_phone = [candidate for candidate in known if candidate.phone == wish.phone]
        return _best_of(of_phone, Why.ASKED_PHONE) if of_phone else NoSender(Why.UNKNOWN_PHONE)
    usable = [candidate for candidate in known if candidate.usable]
    if any(candidate.session_id == affinity for candidate in usable):
        return Chosen(str(affinity), Why.SPOKE_BEFORE)
    return _best_of(usable, Why.MOST_ROOM) if usable else NoSender(Why.NONE_USABLE)


def _asked_session(session_id: str, phone: str | None, known: Sequence[Candidate]) -> Chosen | NoSender:
    asked = next((candidate for candidate in known if candidate.session_id == session_id), None)
    if asked is None:
        return NoSender(Why.UNKNOWN_SESSION)
    if phone is not None and asked.phone is not None and asked.phone != phone:
        return NoSender(Why.PHONE_DIFFERS)
    return Chosen(session_id, Why.ASKED_SESSION)


def _best_of(candidates: Sequence[Candidate], why: Why) -> Chosen:
    best = max(candidates, key=lambda candidate: (candidate.usable, candidate.room_today))
    return Chosen(best.session_id, why)
