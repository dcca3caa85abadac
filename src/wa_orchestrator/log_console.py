"""One log line as a person at a terminal reads it: the time, how bad it is, what happened, and its few facts."""

import json
from datetime import datetime
from typing import Any, Final

from structlog.typing import EventDict, WrappedLogger

#: Facts about the line, not about what happened.
_FRAME: Final = ("timestamp", "level", "event", "logger", "exception", "stack")
_COLOURS: Final = {"warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m"}
_PLAIN: Final = "\x1b[0m"
_WIDTH: Final = 22


class LineForPeople:
    """Renders an event whose secrets are hidden already. Nothing in it can move the cursor or begin a line."""

    def __init__(self, *, coloured: bool) -> None:
        self._coloured = coloured

    def __call__(self, _logger: WrappedLogger, _method: str, event: EventDict) -> str:
        """Give the line, and the traceback below it where there is one."""
        level = str(event.get("level", "info"))
        facts = [f"{name}={_value(value)}" for name, value in event.items() if name not in _FRAME]
        what = harmless(str(event.get("event", "")))
        line = f"{_clock(event.get('timestamp'))} {level:7} {what:{_WIDTH}} {' '.join(facts)}".rstrip()
        below = [str(event[name]) for name in ("exception", "stack") if event.get(name)]
        text = "\n".join([line, *(harmless(each) for part in below for each in part.splitlines())])
        colour = _COLOURS.get(level) if self._coloured else None
        return f"{colour}{text}{_PLAIN}" if colour else text


def _clock(timestamp: Any) -> str:
    """The time of day on this machine: who looks at a terminal knows the day."""
    return datetime.fromisoformat(str(timestamp)).astimezone().strftime("%H:%M:%S") if timestamp else "--:--:--"


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)
    is_one_word = bool(text) and not any(each.isspace() or each in "\"'" for each in text)
    return harmless(text if is_one_word or not isinstance(value, str) else json.dumps(text, ensure_ascii=False))


def harmless(text: str) -> str:
    """Write what a terminal would obey (escapes, returns, direction marks) as what it is called."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
