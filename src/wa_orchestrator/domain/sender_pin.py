"""What a client has asked for about the sender of its message, and so what nobody may change."""

from collections.abc import Mapping
from enum import StrEnum

FIELD = "pinned"
"""The field of a message's record that holds it."""


class Pin(StrEnum):
    """How far the sender of a message is fixed."""

    NOTHING = ""
    """The server chose the sender, and may choose another while the message waits."""
    PHONE = "phone"
    """The client named the sending phone; any session of that phone may send it."""
    SESSION = "session"
    """The client named the session; no other sends it."""

    @classmethod
    def of(cls, fields: Mapping[str, str]) -> "Pin":
        """Read the pin of a message from its record."""
        word = fields.get(FIELD, "")
        return cls(word) if word in (cls.PHONE, cls.SESSION) else cls.NOTHING


def is_left_behind(pin: Pin, waits_at: str, session_phone: str) -> bool:
    """Say whether a message waits at a phone which the session that the client named for it has left for another.

    A session that has no phone yet has left none.
    """
    return pin is Pin.SESSION and session_phone not in ("", waits_at)
