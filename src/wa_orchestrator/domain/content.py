"""The content of a message (a text, a file or a location), its limits and its stored form."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, assert_never

from wa_orchestrator.errors import Broken

LONGEST_TEXT = 4096
LONGEST_CAPTION = 1024
LONGEST_NAME = 255
_MIMETYPE = re.compile(r"[\w.+-]+/[\w.+-]+(;.*)?")


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


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a content, and where."""

    path: str
    text: str


class BadContent(Broken):
    """The stored content is of an unknown kind or incomplete."""


def problems(content: Content) -> tuple[Problem, ...]:
    """Return everything that is wrong with `content`; it may be sent if that is nothing."""
    match content:
        case Text(text):
            return _text_problems(text)
        case Media():
            return tuple(_media_problems(content))
        case Location():
            return tuple(_location_problems(content))
    assert_never(content)


def _text_problems(text: str) -> tuple[Problem, ...]:
    if 1 <= len(text) <= LONGEST_TEXT and text.strip():
        return ()
    return (Problem("message", f"A text has 1 to {LONGEST_TEXT} characters; this one has {len(text.strip())}."),)


def _media_problems(media: Media) -> list[Problem]:
    found = []
    if (media.url is None) == (media.upload is None):
        found.append(Problem("media", "Give either the address of the file or the id of an upload."))
    if not _MIMETYPE.fullmatch(media.mimetype):
        found.append(Problem("media.mimetype", "A kind of file is written like image/png."))
    if media.filename is not None and not 1 <= len(media.filename) <= LONGEST_NAME:
        found.append(Problem("media.filename", f"A file's name has 1 to {LONGEST_NAME} characters."))
    if media.caption is not None and len(media.caption) > LONGEST_CAPTION:
        found.append(Problem("media.caption", f"A caption has at most {LONGEST_CAPTION} characters."))
    return found


def _location_problems(place: Location) -> list[Problem]:
    found = []
    if not -90 <= place.latitude <= 90:
        found.append(Problem("location.latitude", "A latitude is between -90 and 90."))
    if not -180 <= place.longitude <= 180:
        found.append(Problem("location.longitude", "A longitude is between -180 and 180."))
    for path, text in (("location.name", place.name), ("location.address", place.address)):
        if text is not None and len(text) > LONGEST_NAME:
            found.append(Problem(path, f"It has at most {LONGEST_NAME} characters."))
    return found


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
