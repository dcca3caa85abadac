"""Which session sends a message: one policy for new messages and for those whose sender is gone."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Pin(StrEnum):
    """How far the client has fixed the sender of a message."""

    NOTHING = ""
    """The server chose the sender, and may choose another while the message waits."""
    PHONE = "phone"
    """The client named the sending phone; any session of that phone may send it."""
    SESSION = "session"
    """The client named the session; no other sends it."""

    @classmethod
    def _missing_(cls, value: object) -> "Pin":
        """Read the pin of a newer version as none."""
        return cls.NOTHING


class Readiness(IntEnum):
    """Whether a session can send now, the best first."""

    READY = 0
    """Connected and not on hold."""
    HELD = 1
    """Connected, but on hold."""
    RETURNING = 2
    """Not connected, but it comes back by itself."""
    OFFLINE = 3
    """Sends nothing until a person acts."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A session that could send a message; `phone` is empty until it is linked."""

    session_id: str
    phone: str
    readiness: Readiness
    room_today: int = 0
    """How many messages its phone may still send today, less those that already wait."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the client asked for: a session, a sending phone, both or neither."""

    session_id: str | None = None
    phone: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """The session and the phone for which a message waits."""

    session_id: str
    phone: str
    pin: Pin = Pin.NOTHING
    tied: bool = False
    """It may leave from this phone only: from another the recipient might get it twice."""

    @property
    def wish(self) -> Wish:
        """What the client asked for."""
        if self.pin is Pin.SESSION:
            return Wish(session_id=self.session_id)
        return Wish(phone=self.phone if self.pin is Pin.PHONE else None)


class Why(StrEnum):
    """Why a session was chosen, or why none was."""

    ASKED_SESSION = "ASKED_SESSION"
    """The caller named the session."""
    ASKED_PHONE = "ASKED_PHONE"
    """The caller named the sending phone."""
    ASSIGNED = "ASSIGNED"
    """The message already waits for this session or for its phone."""
    SPOKE_BEFORE = "SPOKE_BEFORE"
    """It was the last to exchange messages with this recipient."""
    MOST_ROOM = "MOST_ROOM"
    """Of the sessions that are ready it has the most room left today."""
    NONE_READY = "NONE_READY"
    """No session is ready; of those that are linked it is the likeliest to be the first."""
    UNKNOWN_SESSION = "UNKNOWN_SESSION"
    """There is no session of that name. Check the name."""
    UNKNOWN_PHONE = "UNKNOWN_PHONE"
    """No session has that phone. Link it first."""
    PHONE_DIFFERS = "PHONE_DIFFERS"
    """The named session has another phone than the named one. Name one of the two."""
    NONE_LINKED = "NONE_LINKED"
    """No session is linked that may send it. Link one."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """This session sends it, at once or when it can."""

    session_id: str
    why: Why


@dataclass(frozen=True, slots=True)
class NoSender:
    """No session may send it."""

    why: Why


def choose(
    wish: Wish, candidates: Sequence[Candidate], *, affinity: str | None = None, current: Assignment | None = None
) -> Chosen | NoSender:
    """Choose the sender among `candidates`.

    A named session or phone is never replaced: it is chosen although it is offline, and its messages wait. A new
    message leaves from the phone of its conversation (`affinity` is the session that has it), else it would overtake
    what waits there; another phone takes the conversation over when nobody there comes back without a person.
    Else the best session that is ready: of the phone for which the message waits (`current`), rather its own session
    than another; then the one of the conversation; then the one with the most room left today. Where none is ready,
    a message that waits goes on waiting for its phone or its session, and a new one waits for any that is linked.
    Ties go to the first id, so the answer does not depend on the order of the candidates.
    """
    if wish.session_id is not None:
        return _named(wish, candidates)

    def rank(candidate: Candidate) -> tuple[int, bool, bool, bool, int, str]:
        return (
            _readiness(candidate, current),
            current is not None and candidate.phone != current.phone,
            current is not None and candidate.session_id != current.session_id,
            candidate.session_id != affinity,
            -candidate.room_today,
            candidate.session_id,
        )

    if wish.phone is not None:
        of_phone = [candidate for candidate in candidates if candidate.phone == wish.phone]
        return Chosen(min(of_phone, key=rank).session_id, Why.ASKED_PHONE) if of_phone else NoSender(Why.UNKNOWN_PHONE)
    of_conversation = _of_conversation(candidates, affinity) if current is None else []
    able = [each for each in of_conversation or candidates if _may_send(each, current)]
    if not able:
        return NoSender(Why.NONE_LINKED)
    best = min(able, key=rank)
    if current is not None and _is_assigned(best, current):
        return Chosen(best.session_id, Why.ASSIGNED)
    if of_conversation or best.session_id == affinity:
        return Chosen(best.session_id, Why.SPOKE_BEFORE)
    return Chosen(best.session_id, Why.MOST_ROOM if best.readiness is Readiness.READY else Why.NONE_READY)


def choose_again(
    current: Assignment, candidates: Sequence[Candidate], *, affinity: str | None = None
) -> Chosen | NoSender:
    """Choose the sender of a message that waits, by the policy of `choose`."""
    return choose(current.wish, candidates, affinity=affinity, current=current)


def _named(wish: Wish, candidates: Iterable[Candidate]) -> Chosen | NoSender:
    named = next((candidate for candidate in candidates if candidate.session_id == wish.session_id), None)
    if named is None:
        return NoSender(Why.UNKNOWN_SESSION)
    if wish.phone is not None and named.phone not in ("", wish.phone):
        return NoSender(Why.PHONE_DIFFERS)
    return Chosen(named.session_id, Why.ASKED_SESSION)


def _of_conversation(candidates: Iterable[Candidate], affinity: str | None) -> list[Candidate]:
    """Return the sessions of the phone that has the conversation, without those that need a person."""
    phone = next((each.phone for each in candidates if each.session_id == affinity), "")
    return [each for each in candidates if phone == each.phone != "" and each.readiness is not Readiness.OFFLINE]


def _may_send(candidate: Candidate, current: Assignment | None) -> bool:
    if current is not None and (current.tied or not candidate.phone):
        return _is_assigned(candidate, current)
    return bool(candidate.phone)


def _readiness(candidate: Candidate, current: Assignment | None) -> Readiness:
    if current is not None and current.tied and candidate.phone != current.phone:
        return Readiness.OFFLINE
    return candidate.readiness


def _is_assigned(candidate: Candidate, current: Assignment) -> bool:
    return candidate.phone == current.phone or candidate.session_id == current.session_id


def is_left_behind(pin: Pin, waits_at: str, session_phone: str) -> bool:
    """Whether a message waits at a phone that the session which the client named for it has left for another.

    A session that has no phone yet has left none.
    """
    return pin is Pin.SESSION and session_phone not in ("", waits_at)


def may_have_arrived(claimed_at_ms: int) -> bool:
    """Whether a worker has ever held a message. A retry resets the attempts, but not this."""
    return claimed_at_ms > 0


def is_tied_to_its_phone(claimed_at_ms: int, *, freed: bool) -> bool:
    """Whether a message may leave from its own phone only: from another the recipient might get it twice.

    It is free again once an operator has retried it after a failure that said so (`message_failures.FREEING`).
    """
    return may_have_arrived(claimed_at_ms) and not freed
