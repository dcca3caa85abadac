"""The content of a message that we send: one closed union, its limits and its stored form.

A part that incoming messages have too (cards, polls, quotes, mentions) has the same class and the same JSON.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final, assert_never

from wa_orchestrator.domain.messages import incoming
from wa_orchestrator.domain.messages.incoming import Card, Mention, Poll, Quote
from wa_orchestrator.errors import Broken

LONGEST_TEXT = 4096
LONGEST_CAPTION = 1024
LONGEST_NAME = 255
#: WhatsApp's own limits of a poll, and ours of cards and mentions.
LONGEST_QUESTION: Final = 255
LONGEST_OPTION: Final = 100
MOST_OPTIONS: Final = 12
MOST_CARDS: Final = 20
MOST_MENTIONS: Final = 50
#: How much of a quoted text is shown.
LONGEST_QUOTE: Final = 1024


class MediaKind(StrEnum):
    """How WhatsApp shows a file."""

    IMAGE = "image"
    DOCUMENT = "document"
    AUDIO = "audio"
    VIDEO = "video"
    VOICE = "voice"
    """A voice note, as if it had been recorded; any sound is converted."""
    STICKER = "sticker"


@dataclass(frozen=True, slots=True)
class LinkPreview:
    """What is shown below a text of the page that it links to."""

    url: str
    title: str
    description: str | None = None
    thumbnail: str | None = None
    """A small JPEG in base64."""


@dataclass(frozen=True, slots=True)
class Text:
    """A written message."""

    text: str
    preview: LinkPreview | None = None


@dataclass(frozen=True, slots=True)
class Media:
    """A file, by its public address or by the id of an upload; exactly one of the two."""

    kind: MediaKind
    mimetype: str
    url: str | None = None
    upload: str | None = None
    filename: str | None = None
    caption: str | None = None
    view_once: bool | None = None
    """Whether it can be opened once only."""


@dataclass(frozen=True, slots=True)
class Location:
    """A location on the map."""

    latitude: float
    longitude: float
    name: str | None = None
    address: str | None = None


@dataclass(frozen=True, slots=True)
class ContactCards:
    """Contact cards."""

    contacts: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class PollQuestion:
    """A poll: its question, and what can be chosen."""

    text: str
    poll: Poll


Content = Text | Media | Location | ContactCards | PollQuestion


@dataclass(frozen=True, slots=True)
class Accompaniment:
    """What may accompany a content of any kind: the message that it answers, and who is mentioned in its text."""

    reply_to: Quote | None = None
    mentions: tuple[Mention, ...] = ()


NOTHING: Final = Accompaniment()


class BadContent(Broken):
    """The stored content is of an unknown kind or incomplete."""


def encode(content: Content, beside: Accompaniment = NOTHING) -> dict[str, object]:
    """Return a content as it is stored in a message's record: `kind`, and the fields of that kind that are set."""
    return _encode(content) | incoming.parts_of({"reply_to": beside.reply_to, "mentions": beside.mentions})


def _encode(content: Content) -> dict[str, object]:
    given = {name: value for name, value in asdict(content).items() if value is not None}
    match content:
        case Text(text, preview):
            return {"kind": "text", "text": text, **({"preview": incoming.encode(preview)} if preview else {})}
        case Media():
            once = {"viewOnce": True} if given.pop("view_once", None) else {}
            return {"kind": given.pop("kind").value, "media": {**given, **once}}
        case Location():
            return {"kind": "location", "location": given}
        case ContactCards(cards):
            return {"kind": "contacts", "contacts": incoming.encode(cards)}
        case PollQuestion(question, poll):
            return {"kind": "poll", "text": question, "poll": incoming.encode(poll)}
    assert_never(content)


def decode(raw: Mapping[str, Any]) -> Content:
    """Read what `encode` wrote; unknown fields, which a later version may add, are ignored."""
    kind = raw.get("kind")
    try:
        if kind == "text":
            return Text(str(raw["text"]), _preview(raw.get("preview")))
        if kind == "location":
            place = raw["location"]
            latitude, longitude = _number(place["latitude"]), _number(place["longitude"])
            return Location(latitude, longitude, **_texts(place, "name", "address"))
        if kind == "contacts":
            return ContactCards(tuple(Card(str(each["name"]), tuple(each["phones"])) for each in raw["contacts"]))
        if kind == "poll":
            poll = raw["poll"]
            return PollQuestion(str(raw["text"]), Poll(tuple(poll["options"]), int(poll.get("selectable", 0))))
        texts = _texts(raw["media"], "mimetype", "url", "upload", "filename", "caption")
        return Media(MediaKind(str(kind)), **texts, view_once=bool(raw["media"].get("viewOnce")) or None)
    except (KeyError, TypeError, ValueError) as wrong:
        raise BadContent(f"unknown or incomplete content: kind {kind}") from wrong


def _preview(raw: Mapping[str, Any] | None) -> LinkPreview | None:
    return LinkPreview(**_texts(raw, "url", "title", "description", "thumbnail")) if raw else None


def decode_accompaniment(raw: Mapping[str, Any]) -> Accompaniment:
    """Read what accompanies a stored content."""
    quoted = raw.get("replyTo")
    try:
        quote = quoted and Quote(
            str(quoted["whatsappId"]), quoted.get("fromMe"), **_texts(quoted, "phone", "lid", "kind", "text")
        )
        return Accompaniment(quote, tuple(Mention(**_texts(each, "phone", "lid")) for each in raw.get("mentions", ())))
    except (KeyError, TypeError, ValueError) as wrong:
        raise BadContent("unknown or incomplete reply or mentions") from wrong


def _number(value: object) -> float:
    if isinstance(value, int | float):
        return float(value)
    raise ValueError(f"not a number: {value!r}")


def _texts(raw: Mapping[str, object], *names: str) -> dict[str, str]:
    return {name: str(value) for name, value in dict(raw).items() if name in names and value is not None}
