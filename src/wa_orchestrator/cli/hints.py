"""What a server says to programs, said to a person at a terminal: commands and options instead of routes and fields."""

import re
from collections.abc import Mapping
from typing import Any, Final

#: By words of the server. What is not here is said as it stands.
_WORDS: Final = tuple(
    (re.compile(pattern), instead)
    for pattern, instead in (
        (r"GET /api/sessions lists them", "`wa-orchestrator sessions list` lists them"),
        (r"GET /api/v1/proxies lists them", "`wa-orchestrator proxies list` lists them"),
        (r"GET /api/v1/messages finds those that are kept", "`wa-orchestrator messages list` lists the newest"),
        (r"GET /api/sessions/(\S+)/status says", r"`wa-orchestrator sessions show \1` says"),
        (
            r"Delete it with \?drain=true to move them first",
            "`wa-orchestrator proxies remove --drain` moves them first",
        ),
        (r"send with \"onLimit\": \"defer\"", "send with --defer"),
        (r"\b(T|t)he same Idempotency-Key", r"\1he same --idempotency-key"),
        (r"\b(T|t)his Idempotency-Key", r"\1his --idempotency-key"),
    )
)
#: By code, where a person at a terminal can do more than a program.
_NEXT: Final[Mapping[str, str]] = {
    "API_KEY_UNKNOWN": "Give another with --api-key or WA_API_KEY; `wa-orchestrator secrets` shows this machine's.",
    "NO_SENDER": "`wa-orchestrator sessions add --wait` makes and links one.",
    "SESSION_NOT_LINKED": "`wa-orchestrator sessions qr SESSION --wait` shows what to scan.",
    "NO_PROXY_CAPACITY": "`wa-orchestrator proxies add URL` adds one.",
}
#: A sentence about a route that no command stands for.
_ROUTE: Final = re.compile(r"\s*\b(?:GET|POST|PUT|DELETE) /\S+ [^.]*\.")
_WAIT: Final = "Wait as long as Retry-After says, or send in batches."


def as_typed(code: str, text: str, details: Mapping[str, Any]) -> str:
    """Say a server's text so that a person can type what it asks for."""
    for pattern, instead in _WORDS:
        text = pattern.sub(instead, text)
    text = _ROUTE.sub("", text)
    if "retryAfterS" in details:
        text = text.replace(_WAIT, f"Try again in {details['retryAfterS']} s.")
    if code == "API_KEY_UNKNOWN":
        text = text.removesuffix("Use another one.").rstrip()
    return f"{text} {_NEXT[code]}" if code in _NEXT else text
