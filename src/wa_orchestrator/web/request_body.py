"""Request bodies with a size limit, whether or not the request declares its length."""

from collections.abc import Callable

from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive, Scope

from wa_orchestrator.errors import Refused


def declared_bytes(scope: Scope) -> int | None:
    """Return the request's Content-Length, or None where it has none."""
    length = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    return int(length) if length.isdigit() else None


def expected_bytes(scope: Scope, most: int) -> int:
    """Return how long a body may become: as long as it declares, or `most` where it does not."""
    declared = declared_bytes(scope)
    return most if declared is None else min(declared, most)


def limited(receive: Receive, most: Callable[[], int], error: Exception, declared: int | None = None) -> Receive:
    """Return a `receive` that raises `error` once the body is longer than `most()` bytes, or declared as longer."""
    size = 0

    async def counted() -> Message:
        nonlocal size
        if declared is not None and declared > most():
            raise error
        message = await receive()
        size += len(message.get("body", b""))
        if size > most():
            raise error
        return message

    return counted


async def read(request: Request, most: int) -> bytes:
    """Read a body of at most `most` bytes; raises `Refused` for a longer one."""
    declared = declared_bytes(request.scope)
    if declared is not None and declared > most:
        raise too_long(most)
    if declared is None:  # the server holds a client to the length that it declared
        request = Request(request.scope, limited(request.receive, lambda: most, too_long(most)))
    try:
        return await request.body()
    except ClientDisconnect:
        return b""  # nobody reads the answer


def too_long(most: int) -> Refused:
    return Refused("BODY_TOO_LONG", f"The body is longer than {most} bytes. Send less, or upload the file first.", 413)
