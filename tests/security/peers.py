"""Raw connections to a listener with limits."""

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

Serve = Callable[..., AbstractAsyncContextManager[int]]
"""Serves the main application with these limits; gives the port."""


class Peer:
    """A raw connection, from any address of this machine."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, port: int, address: str = "127.0.0.1") -> "Peer":
        return cls(*await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0)))

    async def send(self, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            self.writer.write(data)
            await self.writer.drain()

    async def rest(self) -> bytes:
        """Read until the server closes the connection."""
        with contextlib.suppress(ConnectionError):
            return await self.reader.read()
        return b""

    async def status(self) -> int:
        """Read the status of one response with a Content-Length; 0 if the connection was closed."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return 0
        length = next((line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), b":0")
        await self.reader.readexactly(int(length.partition(b":")[2]))
        return int(head.split(b" ", 2)[1])

    def close(self) -> None:
        self.writer.close()


HEALTH = b"GET /health HTTP/1.1\r\nHost: server\r\n\r\n"
