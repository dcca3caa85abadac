"""Error messages for the terminal: commands and options where the server's message names routes and fields.

In English, like all of the command line. The server's message is shown for a code that has no entry here, and when
its details lack what the entry needs: an older server does not send them.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

#: Replaces the server's message. Names in braces are details of the error.
_INSTEAD: Final[Mapping[str, str]] = {
    "API_KEY_UNKNOWN": "This API key does not exist or was revoked. Pass another one with --api-key or WA_API_KEY; "
    "`wa-orchestrator secrets` shows this machine's.",
    "DAILY_LIMIT": "Session {sessionId} has sent its {limit} messages for today. Wait, name another session, "
    "or send with --defer.",
    "IDEMPOTENCY_CONFLICT": "This --idempotency-key was used with another body. Use a new key for a new message.",
    "NO_QR": "Session {sessionId} has no code now; it is {status}. "
    "`wa-orchestrator sessions show {sessionId}` shows what it waits for.",
    "NO_SUCH_MESSAGE": "There is no message {messageId}; it may have been erased. "
    "`wa-orchestrator messages list` lists the newest.",
    "NO_SUCH_PROXY": "There is no proxy {proxyId}. `wa-orchestrator proxies list` lists them.",
    "NO_SUCH_SESSION": "There is no session {sessionId}. `wa-orchestrator sessions list` lists them.",
    "PROXY_IN_USE": "{sessions} sessions use this proxy. `wa-orchestrator proxies remove --drain` moves them first.",
    "QUEUE_UNAVAILABLE": "The queue does not answer. Retry with the same --idempotency-key: "
    "the message is then accepted only once.",
    "RATE_LIMITED": "This API key calls too often. Retry in {retryAfterS} s.",
}
#: Follows the server's message.
_NEXT: Final[Mapping[str, str]] = {
    "NO_PROXY_CAPACITY": "`wa-orchestrator proxies add URL` adds one.",
    "NO_SENDER": "`wa-orchestrator sessions add --wait` creates and links one.",
    "SESSION_NOT_LINKED": "`wa-orchestrator sessions qr SESSION --wait` shows what to scan.",
}


def terminal_message(code: str, message: str, details: Mapping[str, Any]) -> str:
    with suppress(KeyError):
        return _INSTEAD[code].format_map(details)
    return f"{message} {_NEXT[code]}" if code in _NEXT else message
