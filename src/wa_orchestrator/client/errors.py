"""What a server can answer instead of success, as exceptions with its stable code."""

# ruff: noqa: N818 (the names say what happened, and read so in `except`)

from collections.abc import Mapping
from typing import Any

import httpx


class ApiError(Exception):
    """The server refused, or could not. `code` is stable, the text is for people, `details` holds the rest."""

    def __init__(self, status: int, code: str, text: str, details: Mapping[str, Any]) -> None:
        super().__init__(f"{code}: {text}")
        self.status = status
        self.code = code
        self.text = text
        self.details = details

    @property
    def retry_after_s(self) -> float | None:
        """How long to wait before another try, if the server said so."""
        seconds = self.details.get("retryAfterS")
        return float(seconds) if isinstance(seconds, int | float) else None


class NotAllowed(ApiError):
    """401 or 403: no key, an unknown one, or one that lacks a scope."""


class NotFound(ApiError):
    """404: there is no such session, message, proxy …"""


class Conflict(ApiError):
    """409: it cannot be done in this state."""


class Invalid(ApiError):
    """422: the request is not right. `errors` has all problems, each with its path."""

    @property
    def errors(self) -> list[dict[str, str]]:
        """All problems of the request's shape; empty when it was refused for another reason."""
        return list(self.details.get("errors", []))


class TooMany(ApiError):
    """429: a rate, a day or a queue is full."""


class Unavailable(ApiError):
    """503: waiting may cure it. A send may be repeated with the same idempotency key."""


class NoAnswer(ApiError):
    """The server cannot be reached, or did not answer in time. Whether it acted is not known."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(0, "NO_ANSWER", f"The server does not answer ({type(cause).__name__}).", {})


_BY_STATUS: Mapping[int, type[ApiError]] = {
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    422: Invalid,
    429: TooMany,
    503: Unavailable,
}


def error_in(response: httpx.Response) -> ApiError | None:
    """Give the error that a response tells, or None for success."""
    if response.is_success:
        return None
    try:
        told = dict(response.json()["error"])
        code, text = str(told.pop("code")), str(told.pop("message"))
    except (ValueError, KeyError, TypeError):
        code, text, told = f"HTTP_{response.status_code}", response.reason_phrase, {}
    return _BY_STATUS.get(response.status_code, ApiError)(response.status_code, code, text, told)
