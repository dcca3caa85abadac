"""Sends calls over httpx, blocking or async, and retries idempotent ones."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import Any, Final, Self

import httpx

from wa_orchestrator.client.api_call import ApiCall
from wa_orchestrator.client.calls import Calls
from wa_orchestrator.client.errors import ApiError, NoAnswerError, TooManyError, UnavailableError, error_in
from wa_orchestrator.client.operation_calls import Json

TIMEOUT_S: Final = 30.0
_LONGEST_PAUSE_S: Final = 10.0


def _options(url: str, api_key: str, timeout_s: float) -> dict[str, Any]:
    return {"base_url": url, "headers": {"X-API-Key": api_key}, "timeout": timeout_s, "trust_env": False}


def _pause_s(call: ApiCall, attempt: int, error: ApiError) -> float:
    """Return the pause before the next attempt: what the server asks for, or exponential backoff with jitter.

    Raises the error unless the call is idempotent and a short wait may cure it.
    """
    asked_s = error.retry_after_s
    curable = isinstance(error, NoAnswerError | UnavailableError | TooManyError) and (asked_s or 0) <= _LONGEST_PAUSE_S
    if not call.may_repeat or not curable:
        raise error
    return asked_s if asked_s is not None else min(_LONGEST_PAUSE_S, 0.25 * 2**attempt) * (0.5 + random.random())  # noqa: S311


def _request(call: ApiCall) -> dict[str, Any]:
    """Return a call as httpx takes it. A server that is not there is noticed as soon as with any other call."""
    asked: dict[str, Any] = {"method": call.method, "url": call.path, **call.options}
    if call.timeout_s is not None:
        asked["timeout"] = httpx.Timeout(call.timeout_s, connect=TIMEOUT_S)
    return asked


def _json(response: httpx.Response) -> Json:
    error = error_in(response)
    if error is not None:
        raise error
    body: Any = response.json() if response.content else {}
    return body if isinstance(body, dict) else {"items": body}


class Client(Calls[Json]):
    """A blocking client. Close it, or use it in a `with` block."""

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        retries: int = 2,
        timeout_s: float = TIMEOUT_S,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._http = httpx.Client(transport=transport, **_options(url, api_key, timeout_s))
        self._retries = retries

    def ask(self, call: ApiCall) -> Json:
        """Send a request and return the response; raise `ApiError`."""
        for attempt in range(self._retries):
            try:
                return self._once(call)
            except ApiError as error:
                time.sleep(_pause_s(call, attempt, error))
        return self._once(call)

    def _once(self, call: ApiCall) -> Json:
        try:
            return _json(self._http.request(**_request(call)))
        except httpx.HTTPError as error:
            raise NoAnswerError(error) from error

    def all_messages(self, **search: Any) -> Iterator[Json]:
        """Yield all messages of a search, page after page."""
        cursor: str | None = ""
        while cursor is not None:
            page = self.messages(**search, cursor=cursor or None)
            yield from page["messages"]
            cursor = page["next"]

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class AsyncClient(Calls[Awaitable[Json]]):
    """The same for asyncio."""

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        retries: int = 2,
        timeout_s: float = TIMEOUT_S,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._http = httpx.AsyncClient(transport=transport, **_options(url, api_key, timeout_s))
        self._retries = retries

    async def ask(self, call: ApiCall) -> Json:
        """Send a request and return the response; raise `ApiError`."""
        for attempt in range(self._retries):
            try:
                return await self._once(call)
            except ApiError as error:
                await asyncio.sleep(_pause_s(call, attempt, error))
        return await self._once(call)

    async def _once(self, call: ApiCall) -> Json:
        try:
            return _json(await self._http.request(**_request(call)))
        except httpx.HTTPError as error:
            raise NoAnswerError(error) from error

    async def all_messages(self, **search: Any) -> AsyncIterator[Json]:
        """Yield all messages of a search, page after page."""
        cursor: str | None = ""
        while cursor is not None:
            page = await self.messages(**search, cursor=cursor or None)
            for message in page["messages"]:
                yield message
            cursor = page["next"]

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()
