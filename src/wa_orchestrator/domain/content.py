"""The content of a message (a text, a file or a location), its limits and its stored form."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, assert_never

from wa_orchestrator.errors import Broken

LONGEST_TEXT = 4096
LONGEST_CAPTION = 1024
LONGEST_NAME = 255


class MediaKind(StrEnum):
    """How WhatsApp shows a file."""

    IMAGE = "image"
    DOCUMENT = "document"
    AUDIO = "audio"
    VIDEO = "video"


@dataclass(frozen=True, slots=True)
class Text:
    """A written message."""

    text: str


@dataclass(frozen=True, slots=True)
class Media:
    """A file, by its public address or by the id of an upload; exactly one of the two."""

    kind: MediaKind
    mimetype: str
    url: str | None = None
    upload: str | None = None
    filename: str | None = None
    caption: str | None = None


@dataclass(frozen=True, slots=True)
class Location:
    """A location on the map."""

    latitude: float
    longitude: float
    name: str | None = None
    address: str | None = None


Content = Text | Media | Location


class BadContent(Broken):
    """The stored content is of an unknown kind or incomplete."""


def encode(content: Content) -> dict[str, object]:
    """Return a content as it is stored in a message's record: `kind`, and the fields of that kind that are set."""
    given = {name: value for name, value in asdict(content).items() if value is not None}
    match content:
        case Text():
            return {"kind": "text", **given}
        case Media():
            return {"kind": given.pop("kind").value, "media": given}
        case Location():
            return {"kind": "location", "location": given}
    assert_never(content)


def decode(raw: Mapping[str, Any]) -> Content:
    """Read what `encode` wrote; unknown fields, which a later version may add, are ignored."""
    kind = raw.get("kind")
    try:
        if kind == "text":
            return Text(str(raw["text"]))
        if kind == "location":
            place = raw["location"]
            latitude, longitude = _number(place["latitude"]), _number(place["longitude"])
            return Location(latitude, longitude, **_texts(place, "name", "address"))
        texts = _texts(raw["media"], "mimetype", "url", "upload", "filename", "caption")
        return Media(MediaKind(str(kind)), **texts)
    except (KeyError, TypeError, ValueError) as wrong:
        raise BadContent(f"unknown or incomplete content: kind {kind}") from wrong


def _number(value: object) -> float:
    if isinstance(value, int | float):
        return float(value)
    raise ValueError(f"not a number: {value!r}")


def _texts(raw: Mapping[str, object], *names: str) -> dict[str, str]:
    return {name: str(value) for name, value in dict(raw).items() if name in names and value is not None}
