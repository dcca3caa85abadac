"""What somebody sent to one of our phones: the kinds, and the parts that a message of each kind has."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from typing import Any, Final


class IncomingKind(StrEnum):
    """Every kind of incoming message. One of a newer worker that is not among them is `OTHER`."""

    TEXT = "text"
    IMAGE = "image"
    VIDEO = "video"
    VOICE = "voice"
    """A voice note, recorded in WhatsApp."""
    AUDIO = "audio"
    DOCUMENT = "document"
    STICKER = "sticker"
    LOCATION = "location"
    LIVE_LOCATION = "live_location"
    CONTACTS = "contacts"
    POLL = "poll"
    VOTE = "vote"
    """A vote in a poll, its `target`. The latest vote of a person replaces the earlier ones."""
    REACTION = "reaction"
    """An emoji, the text, on the `target`; an empty text removes it."""
    EDIT = "edit"
    """Another text for the `target`."""
    DELETION = "deletion"
    """The `target` was deleted for everyone."""
    BUTTON_ANSWER = "button_answer"
    LIST_ANSWER = "list_answer"
    OTHER = "other"


#: Kinds that have a file.
FILES: Final = frozenset(
    {
        IncomingKind.IMAGE, IncomingKind.VIDEO, IncomingKind.VOICE, IncomingKind.AUDIO, IncomingKind.DOCUMENT,
        IncomingKind.STICKER,
    }
)  # fmt: skip
#: Kinds that change an earlier message instead of adding one.
AMENDMENTS: Final = frozenset({IncomingKind.VOTE, IncomingKind.REACTION, IncomingKind.EDIT, IncomingKind.DELETION})
_PREFIX: Final = "i_"
_FIRST_WAIT_MS: Final = 30_000
_FETCHED_FOR_MS: Final = 24 * 3_600_000
_FORMER: Final = {"contact": IncomingKind.CONTACTS}


def kind_of(word: str) -> IncomingKind:
    """Return the kind with this name, which may be that of an older or a newer worker."""
    try:
        return IncomingKind(word)
    except ValueError:
        return _FORMER.get(word, IncomingKind.OTHER)


def id_of(session: str, whatsapp_id: str) -> str:
    """Return our id of an incoming message; WhatsApp's is chosen by its sender, and unique only in one session."""
    return _PREFIX + base64.urlsafe_b64encode(f"{session} {whatsapp_id}".encode()).decode().rstrip("=")


def parse_id(text: str) -> tuple[str, str] | None:
    """Return the session and WhatsApp's id of the message with our id; None for what is no such id."""
    coded = text.removeprefix(_PREFIX)
    try:
        session, _, whatsapp_id = base64.urlsafe_b64decode(coded + "=" * (-len(coded) % 4)).decode().partition(" ")
    except ValueError:
        return None
    return (session, whatsapp_id) if id_of(session, whatsapp_id) == text else None


def next_fetch_ms(received_at_ms: int, now_ms: int) -> int | None:
    """Return when to try again to fetch a file that could not be had; None a day after it came.

    Each wait is as long as all of them so far: a session may be away for a minute or for a night.
    """
    waited_ms = now_ms - received_at_ms
    return None if waited_ms >= _FETCHED_FOR_MS else now_ms + max(waited_ms, _FIRST_WAIT_MS)


@dataclass(frozen=True, slots=True)
class Author:
    """Who wrote a message: a person, by either name ('' = unknown), or the account itself."""

    phone: str = ""
    lid: str = ""
    is_us: bool = False

    def is_same(self, other: "Author") -> bool:
        """Whether both are one; people by a name that is known of both."""
        if self.is_us or other.is_us:
            return self.is_us and other.is_us
        return bool(self.phone and self.phone == other.phone) or bool(self.lid and self.lid == other.lid)


def may_amend(kind: IncomingKind, who: Author, author: Author | None, group: str | None) -> bool:
    """Whether `who` may edit or delete a message of `author`, None where it is not known.

    WhatsApp delivers whatever message an edit names: a customer could rewrite our offer. In a group an admin may delete
    what others wrote.
    """
    if kind not in (IncomingKind.EDIT, IncomingKind.DELETION) or author is None:
        return True
    return who.is_same(author) or (kind is IncomingKind.DELETION and group is not None)


@dataclass(frozen=True, slots=True)
class IncomingFile:
    """What the sender says about a file; it is checked only when the file is fetched."""

    mimetype: str | None = None
    size: int | None = None
    filename: str | None = None
    seconds: int | None = None
    width: int | None = None
    height: int | None = None
    pages: int | None = None
    animated: bool | None = None
    gif: bool | None = None
    round: bool | None = None
    """A video that was recorded in a circle."""


@dataclass(frozen=True, slots=True)
class Card:
    """A contact card."""

    name: str
    phones: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Poll:
    """The options of a poll; its question is the text. `selectable` of 0 means any number of them."""

    options: tuple[str, ...]
    selectable: int = 0


@dataclass(frozen=True, slots=True)
class Vote:
    """The options that a person chose; none when they took their vote back."""

    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TargetMessage:
    """The message that a reaction, a vote, an edit or a deletion is about; `from_me` if it is the account's own."""

    whatsapp_id: str
    from_me: bool | None = None


@dataclass(frozen=True, slots=True)
class Quote:
    """The message that a reply quotes, as its author shows it: WhatsApp does not check that."""

    whatsapp_id: str
    from_me: bool | None = None
    phone: str | None = None
    lid: str | None = None
    kind: str | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Mention:
    """A person whom a text mentions."""

    phone: str | None = None
    lid: str | None = None


@dataclass(frozen=True, slots=True)
class Ad:
    """The advertisement from which somebody began the conversation."""

    title: str | None = None
    text: str | None = None
    url: str | None = None
    click_id: str | None = None


def encode(part: Any) -> Any:
    """Return a part as JSON values: names as the API spells them, without what is not set."""
    if is_dataclass(part):
        values = {each.name: getattr(part, each.name) for each in fields(part)}
        return {json_name(name): encode(value) for name, value in values.items() if value is not None}
    return [encode(each) for each in part] if isinstance(part, tuple) else part


def json_name(attribute: str) -> str:
    """Return an attribute's name in JSON."""
    first, *others = attribute.split("_")
    return first + "".join(map(str.capitalize, others))


def parts_of(named: Mapping[str, object]) -> dict[str, Any]:
    """Return those parts that are set, encoded."""
    return {json_name(name): encode(part) for name, part in named.items() if part not in (None, (), False)}
