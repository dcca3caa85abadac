"""The chain of the audit log: every line has the hash of the line before, so that none can be changed or taken out."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

#: What the first line has as the hash of the line before.
BEGINNING: Final = "0" * 64


@dataclass(frozen=True, slots=True)
class Link:
    """The end of a chain: the number and the hash of its last line."""

    number: int = 0
    hash: str = BEGINNING


#: The end of a chain that has no line yet.
BEGIN: Final = Link()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far a file was checked: up to `offset`, where the line of `last` ends."""

    file: tuple[int, int]
    """Its device and inode: another file of the same name is checked from its beginning."""
    offset: int
    last: Link
    whole_at_ms: int
    """When the check began that read it from its first line."""


class Damage(StrEnum):
    """What is wrong with a line."""

    UNREADABLE = "UNREADABLE"
    """It is not a JSON object with the fields of an entry."""
    CHANGED = "CHANGED"
    """Its hash is not that of its content."""
    OUT_OF_ORDER = "OUT_OF_ORDER"
    """It does not follow the line before: one was taken out, put in or moved."""


@dataclass(frozen=True, slots=True)
class Intact:
    """Every line follows the one before."""

    last: Link


@dataclass(frozen=True, slots=True)
class BrokenChain:
    """The first line that is wrong, counted from 1."""

    line: int
    damage: Damage


def line_of(previous: Link, entry: Mapping[str, Any]) -> tuple[str, Link]:
    """Return the line of a new entry, without its end, and the link that it adds."""
    content = {"number": previous.number + 1, **entry, "previous": previous.hash}
    link = Link(previous.number + 1, _hash(content))
    return json.dumps({**content, "hash": link.hash}, ensure_ascii=False), link


def link_of(line: str) -> Link | None:
    """Return the link that a line adds to the chain; None if it is not a line of a chain."""
    try:
        raw = json.loads(line)
        return Link(int(raw["number"]), str(raw["hash"]))
    except (ValueError, KeyError, TypeError):
        return None


def verify(lines: Iterable[str], last: Link = BEGIN) -> Intact | BrokenChain:
    """Check the lines of a log that come after `last`; a whole log, if nothing is said."""
    for at, line in enumerate(lines, start=last.number + 1):
        link = link_of(line)
        if link is None:
            return BrokenChain(at, Damage.UNREADABLE)
        raw = json.loads(line)
        if _hash({name: value for name, value in raw.items() if name != "hash"}) != link.hash:
            return BrokenChain(at, Damage.CHANGED)
        if raw.get("previous") != last.hash or link.number != last.number + 1:
            return BrokenChain(at, Damage.OUT_OF_ORDER)
        last = link
    return Intact(last)


def _hash(content: Mapping[str, Any]) -> str:
    canonical = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
