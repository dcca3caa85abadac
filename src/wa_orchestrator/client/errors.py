"""Error responses as exceptions with the server's stable code."""

from collections.abc import Mapping
from typing import Any

import httpx


class ApiError(Exception):
    """The server refused or failed. `code` is stable, `text` is for people, `details` has the other fields."""

    def __init__(self, status: int, code: str, text: str, details: Mapping[str, Any]) -> None:
        super().__init__(f"{code}: {text}")
        self.status = status
        self.code = code
        self.text = text
        self.details = details

    @property
    def retry_after_s(self) -> float | None:
        """How long the server asks to wait before the next attempt."""
        seconds = self.details.get("retryAfterS")
        return float(seconds) if isinstance(seconds, int | float) else None


class NotAllowedError(ApiError):
    """401 or 403: the key is missing, unknown or lacks a scope."""


class NotFoundError(ApiError):
    """404: there is no such session, message, proxy …"""


class ConflictError(ApiError):
    """409: the present state does not allow it."""


class InvalidError(ApiError):
    """422: the request is not valid. `errors` lists the fields to correct, each with its path."""

    @property
    def errors(self) -> list[dict[str, str]]:
        """The fields to correct; empty when the request was refused for another reason."""
        return list(self.details.get("errors", []))


class TooManyError(ApiError):
    """429: a rate, a day or a queue is full."""


class UnavailableError(ApiError):
    """503: try again later. A send may be repeated with the same idempotency key."""


class NoAnswerError(ApiError):
    """The server cannot be reached or did not respond in time. Whether it acted is unknown where it was `reached`."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(0, "NO_ANSWER", f"The server does not respond ({type(cause).__name__}).", {})
        self.reached = not isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout | httpx.UnsupportedProtocol)


_BY_STATUS: Mapping[int, type[ApiError]] = {
    401: NotAllowedError,
    403: NotAllowedError,
    404: NotFoundError,
    409: ConflictError,
    422: InvalidError,
    429: TooManyError,
    503: UnavailableError,
}


def error_in(response: httpx.Response) -> ApiError | None:
    """Return the error in a response, or None for success."""
    if response.is_success:
        return None
    try:
        detail = dict(response.json()["error"])
        code, text = str(detail.pop("code")), str(detail.pop("message"))
    except (ValueError, KeyError, TypeError):
        code, text, detail = f"HTTP_{response.status_code}", response.reason_phrase, {}
    return _BY_STATUS.get(response.status_code, ApiError)(response.status_code, code, text, detail)
