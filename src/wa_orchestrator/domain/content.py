"""The content of a message (a text, a file or a location), its limits and its stored form."""

from collections.abc import Mapping
from dataclasses import dataclass
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
    match content:
        case Text(text):
            return {"kind": "text", "text": text}
        case Media(kind, mimetype, url, upload, filename, caption):
            file = {"mimetype": mimetype, "url": url, "upload": upload, "filename": filename, "caption": caption}
            return {"kind": kind.value, "media": _given(file)}
        case Location(latitude, longitude, name, address):
            place = {"latitude": latitude, "longitude": longitude, "name": name, "address": address}
            return {"kind": "location", "location": _given(place)}
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
            return Location(latitude, longitude, _optional(place, "name"), _optional(place, "address"))
        file = raw["media"]
        return Media(
            MediaKind(str(kind)),
            str(file["mimetype"]),
            url=_optional(file, "url"),
            upload=_optional(file, "upload"),
            filename=_optional(file, "filename"),
            caption=_optional(file, "caption"),
        )
    except (KeyError, TypeError, ValueError) as wrong:
        raise BadContent(f"unknown or incomplete content: kind {kind}") from wrong


def _given(fields: Mapping[str, object | None]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}


def _number(value: object) -> float:
    if isinstance(value, int | float):
        return float(value)
    raise ValueError(f"not a number: {value!r}")


def _optional(raw: Mapping[str, object], name: str) -> str | None:
    value = raw.get(name)
    return None if value is None else str(value)
