"""Parses worker events by the fields of their classes. Unknown types and fields, of a newer worker, are ignored."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import cache, partial
from types import NoneType
from typing import Any, NamedTuple, get_args, get_type_hints

from wa_orchestrator.domain import worker_events
from wa_orchestrator.domain.content import Location
from wa_orchestrator.domain.worker_events import TYPES, Code, Instant, Payload, UnknownEvent, WorkerEvent
from wa_orchestrator.errors import Refused


class BadEvent(Refused):
    """An invalid event: `path` says where, `problem` says what is wrong there."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__("BAD_EVENT", f"{path}: {problem}", path=path)
        self.path = path
        self.problem = problem


def parse(raw: Mapping[str, object]) -> WorkerEvent[Payload]:
    """Parse an event from its JSON object; raise `BadEvent` for an invalid one."""
    envelope = _read_object(_Envelope, raw)
    payload: Payload = UnknownEvent()
    if envelope.type in TYPES:
        payload = _Field("data", partial(_read_object, TYPES[envelope.type])).read(raw)
    if isinstance(payload, worker_events.QrCode | worker_events.PairingCodeShown) and not payload.expires_at_ms:
        payload = replace(payload, expires_at_ms=envelope.timestamp_ms + payload.LIFE_MS)
    return WorkerEvent(
        envelope.session_id, envelope.type, envelope.timestamp_ms, payload, envelope.sequence, envelope.epoch
    )


@dataclass(frozen=True, slots=True)
class _Envelope:
    type: str
    session_id: str
    timestamp_ms: Instant
    sequence: int | None = None
    epoch: int | None = None


class _Field(NamedTuple):
    """A field of a JSON object. `read_value` gets its value and its path."""

    name: str
    read_value: Callable[[object, str], Any]
    default: object = MISSING

    def read(self, raw: Mapping[str, object], path: str = "") -> Any:
        value, path = raw.get(self.name), f"{path}.{self.name}".lstrip(".")
        if value is not None:
            return self.read_value(value, path)
        if self.default is MISSING:
            raise BadEvent(path, "is missing")
        return self.default


def _read_object(kind: Any, value: object, path: str = "") -> Any:
    raw = _mapping(value, path)
    return kind(**{attribute: field.read(raw, path) for attribute, field in _fields(kind).items()})


@cache
def _fields(kind: Any) -> dict[str, _Field]:
    """Return the fields of a class, by attribute."""
    hints = get_type_hints(kind, include_extras=True)
    return {each.name: _field(each.name, hints[each.name], each.default) for each in fields(kind)}


def _field(attribute: str, hint: Any, default: object) -> _Field:
    hint = get_args(hint)[0] if NoneType in get_args(hint) else hint
    first, *others = (attribute.removesuffix("_ms") if hint is Instant else attribute).split("_")
    name = "from" if attribute == "sender" else first + "".join(map(str.capitalize, others))
    return _Field(name, _reader(hint), default)


def _reader(hint: Any) -> Callable[[object, str], Any]:
    if hint in _READERS:
        return _READERS[hint]
    return partial(_read_object if is_dataclass(hint) else _word, hint)


def _location(value: object, path: str) -> Location | None:
    raw = _mapping(value, path)
    has_coordinates = raw.get("latitude") is not None and raw.get("longitude") is not None
    return _read_object(Location, raw, path) if has_coordinates else None


def _mapping(value: object, path: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise BadEvent(path, "must be an object")
    return value


def _sequence(value: object, path: str) -> Sequence[object]:
    if not isinstance(value, list):
        raise BadEvent(path, "must be a list")
    return value


def _string(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise BadEvent(path, "must be a string")
    return value


def _word(words: type[StrEnum], value: object, path: str) -> StrEnum:
    try:
        return words(_string(value, path))
    except ValueError:
        raise BadEvent(path, f"must be one of {', '.join(words)}") from None


def _flag(value: object, path: str) -> bool:
    if not isinstance(value, bool):
        raise BadEvent(path, "must be true or false")
    return value


def _number(value: object, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadEvent(path, "must be a number")
    return value


def _whole(value: object, path: str) -> int:
    return int(_number(value, path))


def _instant_ms(value: object, path: str) -> int:
    if not isinstance(value, str):
        return _whole(value, path)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise BadEvent(path, "must be an ISO 8601 date and time, or milliseconds since 1970") from None
    if moment.tzinfo is None:
        raise BadEvent(path, "must have a UTC offset")
    return round(moment.timestamp() * 1000)


#: The reader of each annotation; those of enums and nested objects are made from the class.
_READERS: Mapping[Any, Callable[[object, str], Any]] = {
    str: _string,
    bool: _flag,
    int: _whole,
    float: _number,
    Instant: _instant_ms,
    Code: lambda value, path: value if isinstance(value, str) else str(_whole(value, path)),
    Mapping[str, object]: _mapping,
    Sequence[object]: _sequence,
    Location: _location,
}
