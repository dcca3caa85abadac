"""Shapes of the protocol that a worker met and does not know: their kinds, and which reports of them are believed.

A shape is `<kind>:<name>`, for instance `ack.error:479`. It names parts of the protocol and holds no contents.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

#: A shape that nobody has met for so long is no news when it comes again: it is new.
KEPT_MS: Final = 30 * 24 * 3600 * 1000
#: A worker tells at most so many apart.
MOST_SHAPES: Final = 100
_NAME: Final = re.compile(r"[A-Za-z0-9_.:@-]{1,48}", re.ASCII)


class Kind(StrEnum):
    """What is unknown; its sentence is `drift.<kind>` in `texts`."""

    STANZA = "stanza"
    NOTIFICATION = "notification"
    INFO = "ib"
    QUESTION = "iq"
    RECEIPT = "receipt"
    ACK_ERROR = "ack.error"
    STREAM_ERROR = "stream.error"
    FAILURE = "failure"
    ATTRIBUTE = "message.attribute"
    PART = "message.part"
    FIELD = "message.field"
    PROTOCOL_MESSAGE = "protocol"


@dataclass(frozen=True, slots=True)
class Shape:
    """An unknown part of the protocol."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True, slots=True)
class Sighting:
    """A shape, how often one worker met it, and when last."""

    shape: Shape
    count: int
    first_at_ms: int
    last_at_ms: int


def parse(text: str) -> Shape | None:
    """Return a shape from its text; None for what no worker of ours reports."""
    kind, _, name = text.partition(":")
    if kind not in tuple(Kind) or not _NAME.fullmatch(name):
        return None
    return Shape(Kind(kind), name)


def sightings(reported: Iterable[object]) -> list[Sighting]:
    """Return what of a worker's report is believed: a worker may be compromised, and its words are shown to people."""
    found = (_sighting(each) for each in reported if isinstance(each, Mapping))
    return [each for each in found if each is not None][:MOST_SHAPES]


def _sighting(raw: Mapping[str, Any]) -> Sighting | None:
    shape = parse(raw["shape"]) if isinstance(raw.get("shape"), str) else None
    numbers = [raw.get(name) for name in ("count", "firstAt", "lastAt")]
    if shape is None or not all(isinstance(each, int) and 0 <= each < 2**53 for each in numbers):
        return None
    count, first_at_ms, last_at_ms = numbers
    return Sighting(shape, count or 0, first_at_ms or 0, last_at_ms or 0)
