"""Reads records from Redis hashes and writes changes to them, by the types of a record's fields."""

import dataclasses
import json
import types
import typing
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from enum import Enum, StrEnum
from functools import cache
from typing import Any, NewType, TypeVar

Read = Callable[[Any], Any]
Record = TypeVar("Record")


def decode(record: type[Record], raw: Mapping[str, str], **more: object) -> Record:
    """Return a hash as a record. A field that is not stored reads as empty; `more` are fields from elsewhere."""
    readers = _readers(typing.cast("Hashable", record))
    stored = {name: readers[name](text) for name, text in raw.items() if text and name in readers}
    values = {**_empty(typing.cast("Hashable", record)), **stored, **more}
    for name in readers.keys() - values.keys():
        values[name] = readers[name]("")  # a member of an enum that must be stored: raises
    return record(**values)


def read_fields(record: Callable[..., object], values: Iterable[str | int]) -> list[Any]:
    """Return the values of a record's fields, in their order, from a list; further values are ignored."""
    return [read(value) for read, value in zip(_readers(record).values(), values, strict=False)]


def encode(changes: Mapping[str, object]) -> dict[str, str | int]:
    """Return changed fields as a hash stores them: no value is an empty string, true is 1."""
    return {name: _text(value) for name, value in changes.items()}


def flat(changes: Mapping[str, object]) -> list[str | int]:
    """Return fields and values in turn, as HSET takes them."""
    return [part for pair in encode(changes).items() for part in pair]


@cache
def _readers(record: Any) -> Mapping[str, Read]:
    hints = typing.get_type_hints(record)
    # A set is a key of its own and comes as one of `more`.
    stored = [
        field.name for field in dataclasses.fields(record) if typing.get_origin(hints[field.name]) is not frozenset
    ]
    return {name: _reader(hints[name]) for name in stored}


@cache
def _empty(record: Any) -> Mapping[str, object]:
    """Return what fields that are not stored read as. Most are not, and reading each took half of a record's time."""
    empty: dict[str, object] = {}
    for name, read in _readers(record).items():
        with suppress(ValueError):  # no member of the enum
            empty[name] = read("")
    return empty


def _reader(hint: Any) -> Read:
    if isinstance(hint, NewType):
        return _reader(hint.__supertype__)
    if isinstance(hint, types.UnionType):
        return _optional_reader(typing.get_args(hint)[0])
    if typing.get_origin(hint) is tuple:
        return lambda text: tuple(json.loads(text or "[]"))
    if hint is int:
        return lambda text: int(float(text or 0))  # Lua writes large numbers as floats
    if hint in (str, bool) or issubclass(hint, StrEnum):
        return typing.cast("Read", hint)
    raise TypeError(f"no hash stores a {hint}")


def _optional_reader(hint: Any) -> Read:
    if issubclass(hint, StrEnum):
        known = {str(member): member for member in hint}
        return known.get  # also a member that only a newer version knows reads as None
    read = _reader(hint)
    return lambda text: read(text) if text else None


def _text(value: object) -> str | int:
    match value:
        case None | False:
            return ""
        case True:
            return 1
        case Enum():
            return str(value)
        case tuple():
            return json.dumps(value)
        case str() | int():
            return value
        case _:
            raise TypeError(f"no hash stores a {type(value).__name__}")
