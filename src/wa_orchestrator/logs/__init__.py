"""Logging to stderr: JSON, or short lines on a terminal.

Secrets are redacted where the line is rendered, whether we or a library have logged it.
"""

import logging
import os
import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from wa_orchestrator.logs.console import ConsoleLine

REDACTED = "***"
#: Names of fields whose value is never logged.
_SECRET_KEY = re.compile(
    r"(?:^|_)(?:password|passwd|secret|token|api_?key|authorization|cookie|credentials?|creds|private_?key|session_?key"
    r"|qr|pairing_?code|body|text|message_?text|caption)(?:$|_)",
    re.IGNORECASE,
)
#: Names of fields with a phone number or a JID.
_PHONE_KEY = re.compile(r"(?:^|_)(?:phone|phone_?number|to|from|sender|recipient|jid|lid)$", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

#: Secrets within a text, and their replacement. Texts come from strangers: every repetition is bounded, or begins where
#: no other could and gives nothing back, so that the time is linear.
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b([a-z][a-z0-9+.-]{0,30}://)[^\s/@:'\"]*+:[^\s/'\"]*@", re.IGNORECASE), rf"\1{REDACTED}@"),
    (re.compile(r"\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE), rf"\1 {REDACTED}"),
    (re.compile(r"\b(wao_|whsec_)[A-Za-z0-9_+/=-]{8,}"), rf"\1{REDACTED}"),
    (re.compile(r"\bwwt_[A-Za-z0-9_.-]{8,}"), f"wwt_{REDACTED}"),  # a worker's token
    (re.compile(r"\b\d{6,}:[A-Za-z0-9_-]{30,}"), REDACTED),  # a Telegram bot's token, also within a URL
    (re.compile(r"AGE-SECRET-KEY-1[0-9A-Z]+", re.IGNORECASE), REDACTED),
    # A QR code for linking: `ref,key,key,key` in base64, optionally behind WhatsApp's URL.
    (
        re.compile(
            r"(?<![A-Za-z0-9+/_@.-])[A-Za-z0-9+/_@.-]{10,}+={0,2}(?:,[A-Za-z0-9+/]{43}=){2,3}(?:,[A-Za-z0-9+/=]*)*"
        ),
        f"{REDACTED}qr",
    ),
    (
        re.compile(
            r"(['\"]?\b(?:password|passwd|secret|token|api[_-]?key|x-api-key|authorization)['\"]?\s*[=:]\s*)"
            r"(?:'[^']*'|\"[^\"]*\"|[^\s,;&'\"]+)",
            re.IGNORECASE,
        ),
        rf"\1{REDACTED}",
    ),
)
#: Texts in which none of these can be found: names of events, loggers and sessions, and instants. Most values are such,
#: and all patterns together took a third of a line's time.
_PLAIN = re.compile(
    r"(?![\w.]*(?:wao_|whsec_|wwt_))[a-z0-9_.]*|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{1,9}Z"
)
_JID = re.compile(r"\b\d{4,}(\d{4})(?=(?::\d+)?@(?:s\.whatsapp\.net|lid|c\.us))")


def redact(value: object, key: str = "") -> Any:
    """Return `value` as it may be logged under the name `key`; recurses into mappings and sequences."""
    is_secret, is_phone = _meaning(key)
    if is_secret and value is not None and not isinstance(value, bool):
        return REDACTED
    match value:
        case Mapping():
            return {str(inner): redact(item, str(inner)) for inner, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [redact(item, key) for item in value]
        case bool() | float() | None:
            return value
        case int():
            return last_four(str(value)) if is_phone else value
        case _:
            text = value if isinstance(value, str) else repr(value)
            return last_four(text) if is_phone else redact_text(text)


@lru_cache(maxsize=1024)  # the same names in every line
def _meaning(key: str) -> tuple[bool, bool]:
    """Whether a field of this name has a secret, and whether it has a phone number."""
    name = _CAMEL.sub("_", key)
    return _SECRET_KEY.search(name) is not None, _PHONE_KEY.search(name) is not None


def redact_text(text: str) -> str:
    """Replace everything in a text that looks like a secret."""
    if _PLAIN.fullmatch(text):
        return text
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return _JID.sub(r"…\1", text)


def last_four(phone: str) -> str:
    """Return the last four digits of a phone number."""
    digits = re.sub(r"\D", "", phone.partition("@")[0].partition(":")[0])
    return f"…{digits[-4:]}" if len(digits) > 4 else redact_text(phone)


def _redact_event(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    event.pop("color_message", None)  # uvicorn's second copy of the message, which is meant for a terminal
    return {key: redact(value, "" if key == "event" else key) for key, value in event.items()}


def configure(level: str = "info", stream: TextIO | None = None) -> None:
    """Send structlog and the standard library's logging to `stream` (stderr): short lines on a terminal, else JSON."""
    stream = stream or sys.stderr
    is_terminal = stream.isatty()
    coloured = "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    json_line = structlog.processors.JSONRenderer(ensure_ascii=False, default=repr)
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
    # Redaction is the last step before rendering, so that no processor and no library can add to it.
    render: list[Processor] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        _redact_event,
        ConsoleLine(coloured=coloured) if is_terminal else json_line,
    ]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=render))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    _quiet_libraries(root.level, is_terminal=is_terminal)
    structlog.configure(
        # First the level: a line that nobody wants costs nothing more.
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


def _quiet_libraries(level: int, *, is_terminal: bool) -> None:
    quiet = max(logging.WARNING, level)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        library = logging.getLogger(name)
        library.handlers.clear()
        library.setLevel(quiet if is_terminal else logging.NOTSET)  # the banner replaces uvicorn's own
        library.propagate, library.disabled = True, False
    for name in ("httpx", "httpcore", "asyncio", "aiodocker"):
        logging.getLogger(name).setLevel(quiet)  # they log every request
