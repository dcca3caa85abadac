"""Streams a file of a store as a response; a part of it where the request asks for a range."""

import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Final
from urllib.parse import quote

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

#: The bytes from `start` on, `length` of them or all, in chunks.
Read = Callable[[int, int | None], AsyncIterator[bytes]]
_RANGE: Final = re.compile(r"bytes=(\d*)-(\d*)")


class StoredFileResponse(Response):
    """A file as an attachment. Players ask for ranges; a request for several at once gets the whole file."""

    def __init__(
        self, size: int, read: Read, *, media_type: str, filename: str, headers: Mapping[str, str] | None = None,
        status_code: int = 200,  # FastAPI reads the default for its document
    ) -> None:  # fmt: skip
        self._size, self._read = size, read
        self.background = None
        self.status_code = status_code
        self.media_type = media_type
        self.init_headers({"Accept-Ranges": "bytes", **(headers or {})})
        self.headers["content-length"] = str(size)
        if filename:
            self.headers["content-disposition"] = _disposition(filename)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it. A file that is shorter than promised ends the connection, so that nobody takes it for whole."""
        asked = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"range"), "")
        part = requested_part(asked, self._size)
        if part is None:
            self.status_code, part = 416, range(0)
            self.headers["content-range"] = f"bytes */{self._size}"
        elif len(part) < self._size:
            self.status_code = 206
            self.headers["content-range"] = f"bytes {part.start}-{part.stop - 1}/{self._size}"
        self.headers["content-length"] = str(len(part))
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        if part and scope["method"] != "HEAD":
            async with aclosing(self._read(part.start, len(part))) as chunks:  # type: ignore[type-var]
                async for chunk in chunks:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def requested_part(asked: str, size: int) -> range | None:
    """Return the bytes that a `Range` header asks for: all without one, None where there are no such bytes."""
    found = _RANGE.fullmatch(asked.strip())
    if found is None or not (found[1] or found[2]):
        return range(size)
    if not found[1]:
        start, stop = max(0, size - int(found[2])), size
    else:
        start, stop = int(found[1]), min(size, int(found[2]) + 1) if found[2] else size
    if found[1] and found[2] and int(found[2]) < int(found[1]):
        return range(size)  # such a header is invalid and is ignored
    return range(start, stop) if start < stop else None


def _disposition(filename: str) -> str:
    encoded = quote(filename)
    return f'attachment; filename="{filename}"' if encoded == filename else f"attachment; filename*=utf-8''{encoded}"
