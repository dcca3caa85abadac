"""Error messages for the terminal: commands and options where the server's message names routes and fields.

In English, like all of the command line. The server's message is shown for a code that has no entry here, and when
its details lack what the entry needs: an older server does not send them.
"""

import re
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
    "NO_SUCH_QUOTE": "There is no such message to answer. `wa-orchestrator messages list` lists those that were sent; "
    "with an id of WhatsApp's, pass --session too.",
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
#: The command that shows what a route returns. Both may hold an id.
_COMMANDS: Final[Mapping[str, str]] = {
    "/api/anti-ban/holds": "holds list",
    "/api/anti-ban/tag-limits": "limits tags",
    "/api/sessions": "sessions list",
    "/api/sessions/{id}/status": "sessions show {id}",
    "/api/v1/backups": "backups",
    "/api/v1/campaigns": "campaign list",
    "/api/v1/conversations": "conversations list",
    "/api/v1/inventory": "inventory list",
    "/api/v1/jobs": "jobs list",
    "/api/v1/keys": "keys list",
    "/api/v1/logins": "logins list",
    "/api/v1/messages": "messages list",
    "/api/v1/nodes": "nodes list",
    "/api/v1/opt-outs": "opt-outs list",
    "/api/v1/people": "people list",
    "/api/v1/proxies": "proxies list",
    "/api/v1/quick-replies": "quick-replies list",
    "/api/v1/trash": "trash list",
    "/api/v1/webhooks": "webhooks list",
    "/api/v1/webhooks/{id}/deliveries": "webhooks deliveries {id}",
}


def terminal_message(code: str, message: str, details: Mapping[str, Any]) -> str:
    with suppress(KeyError):
        return _INSTEAD[code].format_map(details)
    message = re.sub(r"GET (/api/[\w/.-]*\w)", _command, message)
    return f"{message} {_NEXT[code]}" if code in _NEXT else message


def _command(found: re.Match[str]) -> str:
    """Return the command that shows what a route returns; the route itself where there is none."""
    for route, command in _COMMANDS.items():
        if named := re.fullmatch(route.replace("{id}", "([^/]+)"), found[1]):
            return f"`wa-orchestrator {command.replace('{id}', ''.join(named.groups()))}`"
    return found[0]
