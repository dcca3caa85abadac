"""Whom a message goes to: a phone, a person by WhatsApp's LID or by username, or a group. Each has one spelling."""

import re
from dataclasses import dataclass
from typing import Final

from wa_orchestrator.domain import phone
from wa_orchestrator.errors import Refused

_LID_PREFIX: Final = "lid:"
_LID: Final = re.compile(r"[0-9]{5,20}")
_GROUP: Final = re.compile(r"[0-9]{5,20}(-[0-9]{5,20})?@g\.us")
#: LIDs have 14 or 15 digits, as hardly any phone has.
_SHORTEST_LID: Final = 14
#: As WhatsApp allows them: letters, digits, dots, underscores, at least one letter; some want a key of four digits.
_USERNAME: Final = re.compile(r"@(?=[0-9._]*[a-z])[a-z0-9._]{3,35}(:[0-9]{4})?")


class BadRecipient(Refused):
    """The text is not a recipient; the message says what to write instead."""

    def __init__(self, text: str) -> None:
        super().__init__("BAD_RECIPIENT", text)


def parse(text: str) -> str:
    """Return the spelling of a recipient: digits of a phone, `lid:<digits>`, or the group's `<id>@g.us`."""
    bare = text.strip()
    user, _, server = bare.partition("@")
    if server == "lid" or bare.startswith(_LID_PREFIX):
        digits = user.removeprefix(_LID_PREFIX)
        if _LID.fullmatch(digits):
            return _LID_PREFIX + digits
        raise BadRecipient("A LID has digits only. Write it as lid:123456789012345.")
    if server == "g.us":
        if _GROUP.fullmatch(bare):
            return bare
        raise BadRecipient("A group's id has digits before the @. Write it as 120363025246125486@g.us.")
    if bare.startswith("@"):
        raise BadRecipient("Only messages accept a username. Write a phone, or lid:123456789012345.")
    return phone.parse(user if server == "s.whatsapp.net" else text)


def parse_with_username(text: str) -> str:
    """Return the same, also for a username: `@name`, or `@name:1234` with the key that the person gives to friends."""
    bare = text.strip().lower()
    if not bare.startswith("@"):
        return parse(text)
    if _USERNAME.fullmatch(bare):
        return bare
    text = "A username has 3 to 35 letters, digits, dots or underscores. Write it as @name, or @name:1234 with its key."
    raise BadRecipient(text)


@dataclass(frozen=True, slots=True)
class Username:
    """A person's username in WhatsApp, and the key of four digits that some want with it ('' = none)."""

    name: str
    key: str = ""


def username_of(recipient: str) -> Username | None:
    """Return the username of a recipient; None for any other. It is not an address: WhatsApp must be asked for that."""
    if not recipient.startswith("@"):
        return None
    name, _, key = recipient.removeprefix("@").partition(":")
    return Username(name, key)


def lid_of(recipient: str) -> str:
    """Return the digits of a LID; '' where the recipient is a phone or a group."""
    return recipient.removeprefix(_LID_PREFIX) if recipient.startswith(_LID_PREFIX) else ""


def is_group(recipient: str) -> bool:
    """Whether a recipient is a group."""
    return recipient.endswith("@g.us")


def is_phone(recipient: str) -> bool:
    """Whether a recipient is a phone."""
    return recipient.isdigit()


def may_be_lid(recipient: str) -> bool:
    """Whether the digits of a phone could be those of a LID, which people copy from logs and events."""
    return is_phone(recipient) and len(recipient) >= _SHORTEST_LID


def lid_refusal(digits: str) -> Refused:
    """Return the refusal of digits that are a LID and were given as a phone."""
    text = f"These digits are WhatsApp's LID of a person, not a phone number. Write lid:{digits}."
    return Refused("RECIPIENT_IS_LID", text, 422)


def address(recipient: str) -> str:
    """Return a recipient as workers expect it: digits of a phone, or WhatsApp's own address."""
    lid = lid_of(recipient)
    return f"{lid}@lid" if lid else recipient
