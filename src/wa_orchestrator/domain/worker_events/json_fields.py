"""Typed access to the fields of a parsed JSON object, with errors that name the path and the problem."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from wa_orchestrator.errors import Refused

_Word = TypeVar("_Word", bound=StrEnum)


class BadEvent(Refused):
    """An invalid event: `path` says where, `problem` says what is wrong there."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__("BAD_EVENT", f"{path}: {problem}", path=path)
        self.path = path
        self.problem = problem


@dataclass(frozen=True, slots=True)
class JsonFields:
    """A JSON object at `path`. Each reader raises `BadEvent` unless the field is there and of its kind."""

    raw: Mapping[str, object]
    path: str = ""

    def has(self, name: str) -> bool:
        return self.raw.get(name) is not None

    def within(self, name: str) -> "JsonFields":
        value = self._given(name)
        if not isinstance(value, Mapping):
            raise BadEvent(self.at(name), "must be an object")
        return JsonFields(value, self.at(name))

    def text(self, name: str) -> str:
        value = self._given(name)
        if not isinstance(value, str):
            raise BadEvent(self.at(name), "must be a string")
        return value

    def optional_text(self, name: str) -> str | None:
        return self.text(name) if self.has(name) else None

    def number(self, name: str) -> float:
        value = self._given(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise BadEvent(self.at(name), "must be a number")
        return value

    def whole(self, name: str) -> int:
        return int(self.number(name))

    def optional_whole(self, name: str) -> int | None:
        return self.whole(name) if self.has(name) else None

    def flag(self, name: str) -> bool:
        value = self._given(name)
        if not isinstance(value, bool):
            raise BadEvent(self.at(name), "must be true or false")
        return value

    def instant_ms(self, name: str) -> int:
        """Read an instant: milliseconds since the epoch, or a date and time with its offset."""
        value = self._given(name)
        if not isinstance(value, str):
            return self.whole(name)
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise BadEvent(self.at(name), "must be an ISO 8601 date and time, or milliseconds since 1970") from None
        if moment.tzinfo is None:
            raise BadEvent(self.at(name), "must have a UTC offset")
        return round(moment.timestamp() * 1000)

    def optional_instant_ms(self, name: str) -> int | None:
        return self.instant_ms(name) if self.has(name) else None

    def word(self, name: str, words: type[_Word]) -> _Word:
        value = self.text(name)
        try:
            return words(value)
        except ValueError:
            raise BadEvent(self.at(name), f"must be one of {', '.join(words)}") from None

    def at(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def _given(self, name: str) -> object:
        value = self.raw.get(name)
        if value is None:
            raise BadEvent(self.at(name), "is missing")
        return value
