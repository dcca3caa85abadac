"""Parses worker events by the fields of their classes. Unknown types and fields, of a newer worker, are ignored."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import cache, partial
from types import NoneType
from typing import Any, Final, NamedTuple, get_args, get_origin, get_type_hints

from wa_orchestrator.domain.messages import incoming
from wa_orchestrator.domain.messages.content import Location
from wa_orchestrator.domain.messages.incoming import IncomingKind
from wa_orchestrator.domain.workers import worker_events
from wa_orchestrator.domain.workers.worker_events import TYPES, Code, Instant, Payload, UnknownEvent, WorkerEvent
from wa_orchestrator.errors import Refused

#: WhatsApp's own longest text, in characters. What a worker says is cut there rather than refused: the message counts.
LONGEST_STRING: Final = 65_536
#: More than any group has members, and any poll options.
MOST_ITEMS: Final = 2_048


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
        kind: Any = TYPES[envelope.type]
        payload = _data(kind).read(raw, "")
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

    def read(self, raw: Mapping[str, object], prefix: str) -> Any:
        """Read it from an object whose fields have paths with this prefix."""
        value = raw.get(self.name)
        if value is not None:
            return self.read_value(value, prefix + self.name)
        if self.default is MISSING:
            raise BadEvent(prefix + self.name, "is missing")
        return self.default

    def read_or_default(self, raw: Mapping[str, object], prefix: str) -> Any:
        """Read it the same way; one that may be missing has its default where it is wrong."""
        try:
            return self.read(raw, prefix)
        except BadEvent:
            if self.default is MISSING:
                raise
            return self.default


def _read_object(kind: Any, value: object, path: str = "") -> Any:
    raw, prefix = _mapping(value, path), f"{path}." if path else ""
    read = _Field.read_or_default if kind in worker_events.SIGNALS else _Field.read
    return kind(**{attribute: read(field, raw, prefix) for attribute, field in _fields(kind).items()})


@cache
def _data(kind: Any) -> _Field:
    """Return the field that has the payload of an event."""
    return _Field("data", partial(_read_object, kind))


@cache
def _fields(kind: Any) -> dict[str, _Field]:
    """Return the fields of a class, by attribute."""
    hints = get_type_hints(kind, include_extras=True)
    return {each.name: _field(each.name, hints[each.name], each.default) for each in fields(kind)}


def _field(attribute: str, hint: Any, default: object) -> _Field:
    hint = get_args(hint)[0] if NoneType in get_args(hint) else hint
    name = incoming.json_name(attribute.removesuffix("_ms") if hint is Instant else attribute)
    name = "from" if attribute == "sender" else name
    return _Field(name, _reader(hint), default)


def _reader(hint: Any) -> Callable[[object, str], Any]:
    if hint in _READERS:
        return _READERS[hint]
    if get_origin(hint) is tuple:
        return partial(_list, _reader(get_args(hint)[0]))
    return partial(_read_object if is_dataclass(hint) else _word, hint)


def _location(value: object, path: str) -> Location | None:
    raw = _mapping(value, path)
    has_coordinates = raw.get("latitude") is not None and raw.get("longitude") is not None
    return _read_object(Location, raw, path) if has_coordinates else None


def _list(read: Callable[[object, str], Any], value: object, path: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise BadEvent(path, "must be a list")
    return tuple(read(each, f"{path}[{index}]") for index, each in enumerate(value[:MOST_ITEMS]))


def _mapping(value: object, path: str) -> Mapping[str, object]:
    # A dict it is, where it comes from JSON: Mapping alone would ask every class that claims to be one.
    if not isinstance(value, dict | Mapping):
        raise BadEvent(path, "must be an object")
    return value


def _sequence(value: object, path: str) -> Sequence[object]:
    if not isinstance(value, list):
        raise BadEvent(path, "must be a list")
    return value[:MOST_ITEMS]


def _string(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise BadEvent(path, "must be a string")
    value = value[:LONGEST_STRING]
    # Half of a surrogate pair cannot be encoded as UTF-8: a sender could make the event fail at every attempt.
    return value if value.isascii() else value.encode(errors="replace").decode()


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
    Code: lambda value, path: value[:LONGEST_STRING] if isinstance(value, str) else str(_whole(value, path)),
    Sequence[object]: _sequence,
    Location: _location,
    IncomingKind: lambda value, path: incoming.kind_of(_string(value, path)),
}
