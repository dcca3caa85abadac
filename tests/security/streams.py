"""Answers without end, read piece by piece: httpx's own transport for applications waits for the end of an answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.waiting import PATIENCE_S


@asynccontextmanager
async def opened_stream(
    app: Any, path: str, query: str, headers: dict[str, str]
) -> AsyncIterator[tuple[int, AsyncIterator[bytes]]]:
    """Ask for an answer without end; gives its status and its pieces."""
    sent: asyncio.Queue[Any] = asyncio.Queue()
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": query.encode(),
        "root_path": "", "client": ("127.0.0.1", 1), "server": ("server", 80),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip
    opened = True

    async def receive() -> dict[str, Any]:
        nonlocal opened
        if opened:
            opened = False
            return {"type": "http.request", "body": b"", "more_body": False}
        await asyncio.Event().wait()
        raise AssertionError

    async def chunks() -> AsyncIterator[bytes]:
        while True:
            async with asyncio.timeout(PATIENCE_S):
                yield (await sent.get()).get("body", b"")

    serving = asyncio.create_task(app(scope, receive, sent.put))
    try:
        async with asyncio.timeout(PATIENCE_S):
            begun = await sent.get()
        yield begun["status"], chunks()
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
