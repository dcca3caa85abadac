"""Log lines on stderr: JSON, or short lines for people where it is a terminal.

Whatever is logged, by us or by a library, loses its secrets where the line is rendered.
"""

import logging
import os
import re
import sys
from collections.abc import Mapping
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from wa_orchestrator.log_console import LineForPeople

HIDDEN = "***"
#: Names of fields whose value is never shown.
_SECRET_KEY = re.compile(
    r"(?:^|_)(?:password|passwd|secret|token|api_?key|authorization|cookie|credentials?|creds|private_?key|session_?key"
    r"|qr|pairing_?code|body|text|message_?text|caption)(?:$|_)",
    re.IGNORECASE,
)
#: Names of fields that hold a phone number or a WhatsApp address.
_PHONE_KEY = re.compile(r"(?:^|_)(?:phone|phone_?number|to|from|sender|recipient|jid|lid)$", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

#: What looks like a secret inside any text, and what is shown instead.
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b([a-z][a-z0-9+.-]*://)[^\s/@'\"]*:[^\s/'\"]*@", re.IGNORECASE), rf"\1{HIDDEN}@"),
    (re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE), rf"\1 {HIDDEN}"),
    (re.compile(r"\b(wao_|whsec_)[A-Za-z0-9_+/=-]{8,}"), rf"\1{HIDDEN}"),
    (re.compile(r"\bwwt_[A-Za-z0-9_.-]{8,}"), f"wwt_{HIDDEN}"),  # a worker's token
    (re.compile(r"\b\d{6,}:[A-Za-z0-9_-]{30,}"), HIDDEN),  # a Telegram bot's token, also within a URL
    (re.compile(r"AGE-SECRET-KEY-1[0-9A-Z]+", re.IGNORECASE), HIDDEN),
    # A linking QR: `ref,key,key,key` in base64, optionally behind WhatsApp's link.
    (
        re.compile(r"(?:\d@)?[A-Za-z0-9+/_@.-]{10,}={0,2}(?:,[A-Za-z0-9+/]{43}=){2,3}(?:,[A-Za-z0-9+/=]*)*"),
        f"{HIDDEN}qr",
    ),
    (
        re.compile(
            r"(['\"]?\b(?:password|passwd|secret|token|api[_-]?key|x-api-key|authorization)['\"]?\s*[=:]\s*)"
            r"(?:'[^']*'|\"[^\"]*\"|[^\s,;&'\"]+)",
            re.IGNORECASE,
        ),
        rf"\1{HIDDEN}",
    ),
)
_JID = re.compile(r"\b\d{4,}(\d{4})(?=(?::\d+)?@(?:s\.whatsapp\.net|lid|c\.us))")


def redact(value: object, key: str = "") -> Any:
    """Give `value` as it may be shown under the name `key`; mappings and sequences are gone through."""
    name = _CAMEL.sub("_", key)
    if _SECRET_KEY.search(name) and value is not None and not isinstance(value, bool):
        return HIDDEN
    match value:
        case Mapping():
            return {str(inner): redact(item, str(inner)) for inner, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [redact(item, key) for item in value]
        case bool() | float() | None:
            return value
        case int():
            return last_four(str(value)) if _PHONE_KEY.search(name) else value
        case _:
            text = value if isinstance(value, str) else repr(value)
            return last_four(text) if _PHONE_KEY.search(name) else redact_text(text)


def redact_text(text: str) -> str:
    """Hide what looks like a secret anywhere in a text."""
    for pattern, shown in _PATTERNS:
        text = pattern.sub(shown, text)
    return _JID.sub(r"…\1", text)


def last_four(phone: str) -> str:
    """Show a phone number by its last four digits."""
    digits = re.sub(r"\D", "", phone.partition("@")[0].partition(":")[0])
    return f"…{digits[-4:]}" if len(digits) > 4 else redact_text(phone)


def _redact_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {key: redact(value, "" if key == "event" else key) for key, value in event.items()}


def _drop_color_message(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Uvicorn says everything twice, the second time for a terminal."""
    event.pop("color_message", None)
    return event


def _renderer(*, at_terminal: bool) -> Processor:
    if at_terminal:
        return LineForPeople(coloured="NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb")
    return structlog.processors.JSONRenderer(ensure_ascii=False, default=repr)


def configure(level: str = "info", stream: TextIO | None = None) -> None:
    """Send structlog and the standard library's logging through one renderer to `stream` (stderr).

    A terminal gets short lines for people; everything else gets JSON.
    """
    stream = stream or sys.stderr
    at_terminal = stream.isatty()
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        structlog.processors.UnicodeDecoder(),
    ]
    # Redaction is the last step before the line is written: no processor and no library can come after it.
    render: list[Processor] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        _drop_color_message,
        _redact_event,
        _renderer(at_terminal=at_terminal),
    ]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=render))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    _hush_libraries(root.level, at_terminal=at_terminal)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def _hush_libraries(level: int, *, at_terminal: bool) -> None:
    calm = max(logging.WARNING, level)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        library = logging.getLogger(name)
        library.handlers.clear()
        library.setLevel(calm if at_terminal else logging.NOTSET)  # people are greeted by ourselves
        library.propagate, library.disabled = True, False
    for name in ("httpx", "httpcore", "asyncio", "aiodocker"):
        logging.getLogger(name).setLevel(calm)  # one line per request says nothing
