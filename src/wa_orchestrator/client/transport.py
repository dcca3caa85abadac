"""Sends calls over httpx, blocking or async, and retries idempotent ones."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from types import TracebackType
from typing import Any, Final, Self

import httpx

from wa_orchestrator.client.calls import ApiCall, Calls, Json
from wa_orchestrator.client.errors import ApiError, NoAnswer, TooMany, Unavailable, error_in

TIMEOUT_S: Final = 30.0
_LONGEST_PAUSE_S: Final = 10.0


def _pause_s(attempt: int, error: ApiError) -> float:
    """Return the pause before the next attempt: what the server asks for, or exponential backoff with jitter."""
    asked = error.retry_after_s
    return asked if asked is not None else min(_LONGEST_PAUSE_S, 0.25 * 2**attempt) * (0.5 + random.random())  # noqa: S311


def _should_retry(call: ApiCall, error: ApiError) -> bool:
    """Whether to retry: the call is idempotent, and a short wait may cure the error."""
    if not call.may_repeat or not isinstance(error, NoAnswer | Unavailable | TooMany):
        return False
    return (error.retry_after_s or 0) <= _LONGEST_PAUSE_S


def _json(response: httpx.Response) -> Json:
    error = error_in(response)
    if error is not None:
        raise error
    body: Any = response.json() if response.content else {}
    return body if isinstance(body, dict) else {"items": body}


def _request(call: ApiCall) -> dict[str, Any]:
    return {
        "method": call.method,
        "url": call.path,
        "params": dict(call.query) or None,
        "headers": dict(call.headers),
        "json": call.json,
        "content": call.content,
    }


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
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._http = httpx.Client(
            base_url=url, headers={"X-API-Key": api_key}, timeout=timeout_s, transport=transport, trust_env=False
        )
        self._retries = retries
        self._sleep = sleep

    def ask(self, call: ApiCall) -> Json:
        """Send a request and return the response; raise `ApiError`."""
        for attempt in range(self._retries + 1):
            try:
                return self._once(call)
            except ApiError as error:
                if attempt == self._retries or not _should_retry(call, error):
                    raise
                self._sleep(_pause_s(attempt, error))
        raise AssertionError("the last attempt returns or raises")

    def all_messages(self, **question: Any) -> Iterator[Json]:
        """Yield all messages of a search, page after page."""
        cursor: str | None = None
        while True:
            page = self.messages(**question, cursor=cursor)
            yield from page["messages"]
            cursor = page["next"]
            if cursor is None:
                return

    def _once(self, call: ApiCall) -> Json:
        try:
            return _json(self._http.request(**_request(call)))
        except httpx.HTTPError as error:
            raise NoAnswer(error) from error

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._http = httpx.AsyncClient(
            base_url=url, headers={"X-API-Key": api_key}, timeout=timeout_s, transport=transport, trust_env=False
        )
        self._retries = retries
        self._sleep = sleep

    async def ask(self, call: ApiCall) -> Json:
        """Send a request and return the response; raise `ApiError`."""
        for attempt in range(self._retries + 1):
            try:
                return await self._once(call)
            except ApiError as error:
                if attempt == self._retries or not _should_retry(call, error):
                    raise
                await self._sleep(_pause_s(attempt, error))
        raise AssertionError("the last attempt returns or raises")

    async def all_messages(self, **question: Any) -> AsyncIterator[Json]:
        """Yield all messages of a search, page after page."""
        cursor: str | None = None
        while True:
            page = await self.messages(**question, cursor=cursor)
            for message in page["messages"]:
                yield message
            cursor = page["next"]
            if cursor is None:
                return

    async def _once(self, call: ApiCall) -> Json:
        try:
            return _json(await self._http.request(**_request(call)))
        except httpx.HTTPError as error:
            raise NoAnswer(error) from error

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
