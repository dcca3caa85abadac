"""Renders a log event as one line for a terminal: time, level, event, fields."""

import json
from datetime import datetime
from typing import Any, Final

from structlog.typing import EventDict, WrappedLogger

#: Not fields of the event itself.
_META: Final = ("timestamp", "level", "event", "logger", "exception", "stack")
_COLOURS: Final = {"warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m"}
_PLAIN: Final = "\x1b[0m"
_WIDTH: Final = 22


class ConsoleLine:
    """Renders an event that is already redacted. Control characters are escaped, so no value can forge a line."""

    def __init__(self, *, coloured: bool) -> None:
        self._coloured = coloured

    def __call__(self, _logger: WrappedLogger, _method: str, event: EventDict) -> str:
        """Return the line, with the traceback below it if there is one."""
        level = str(event.get("level", "info"))
        fields = [f"{name}={_value(value)}" for name, value in event.items() if name not in _META]
        event_name = escape(str(event.get("event", "")))
        line = f"{_clock(event.get('timestamp'))} {level:7} {event_name:{_WIDTH}} {' '.join(fields)}".rstrip()
        below = [str(event[name]) for name in ("exception", "stack") if event.get(name)]
        text = "\n".join([line, *(escape(each) for part in below for each in part.splitlines())])
        colour = _COLOURS.get(level) if self._coloured else None
        return f"{colour}{text}{_PLAIN}" if colour else text


def _clock(timestamp: Any) -> str:
    """Return the local time of day; at a terminal the date is known."""
    return datetime.fromisoformat(str(timestamp)).astimezone().strftime("%H:%M:%S") if timestamp else "--:--:--"


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)
    is_one_word = bool(text) and not any(each.isspace() or each in "\"'" for each in text)
    return escape(text if is_one_word or not isinstance(value, str) else json.dumps(text, ensure_ascii=False))


def escape(text: str) -> str:
    """Escape what a terminal would interpret: escape sequences, carriage returns, direction marks."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
