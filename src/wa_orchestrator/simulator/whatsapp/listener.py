"""One port for WebSocket and plain HTTP, on asyncio streams and the sans-I/O core of `websockets`."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus

from websockets.exceptions import ProtocolError as WebSocketError
from websockets.frames import Frame, Opcode
from websockets.http11 import Request as UpgradeRequest
from websockets.protocol import State
from websockets.server import ServerProtocol

from wa_orchestrator.simulator.errors import ProtocolError

_MAX_HEAD = 64 << 10
_MAX_BODY = 128 << 20
_MAX_MESSAGE = 32 << 20
_MAX_UNSENT = 32 << 20
_PARTING_S = 5.0


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A plain HTTP request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class HttpResponse:
    status: int
    body: bytes = b""
    content_type: str = "application/octet-stream"


class WebSocket:
    """An upgraded connection. Sending never blocks; a client that does not read is disconnected."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        self._reader = reader
        self._writer = writer
        self._protocol = ServerProtocol(max_size=_MAX_MESSAGE)
        self._protocol.receive_data(head)
        self._parts = bytearray()
        peer = writer.get_extra_info("peername")
        self.peer_port: int = peer[1] if peer else 0

    def accept(self) -> bool:
        """Answer the upgrade. Returns whether it was valid."""
        request = next((event for event in self._protocol.events_received() if isinstance(event, UpgradeRequest)), None)
        if request is None:
            return False
        self._protocol.send_response(self._protocol.accept(request))
        self._flush()
        return self._protocol.state is State.OPEN

    def send(self, data: bytes) -> None:
        if self._protocol.state is not State.OPEN or self._writer.is_closing():
            return
        self._protocol.send_binary(data)
        self._flush()
        if self._writer.transport.get_write_buffer_size() > _MAX_UNSENT:
            self.abort()

    def close(self) -> None:
        """Close with a closing handshake."""
        if self._protocol.state is State.OPEN:
            with contextlib.suppress(WebSocketError):
                self._protocol.send_close(1000)
        self._flush()
        self._writer.close()

    def abort(self) -> None:
        """Reset the connection, as a failing network does."""
        self._writer.transport.abort()

    async def receive(self) -> list[bytes] | None:
        """Return the next complete messages; None when the connection is closed."""
        chunk = await self._reader.read(65536)
        if chunk:
            self._protocol.receive_data(chunk)
        else:
            self._protocol.receive_eof()
        messages = []
        for event in self._protocol.events_received():
            if isinstance(event, Frame) and event.opcode in (Opcode.BINARY, Opcode.CONT, Opcode.TEXT):
                self._parts += event.data
                if event.fin:
                    messages.append(bytes(self._parts))
                    self._parts.clear()
        self._flush()
        if messages:
            return messages
        return [] if chunk and self._protocol.state is State.OPEN else None

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if self._writer.is_closing():
                return
            if data:
                self._writer.write(data)
            else:
                self._writer.close()


class HttpListener:
    """Passes WebSocket upgrades to `on_socket` and other requests to `on_request`."""

    def __init__(
        self, on_socket: Callable[[WebSocket], Awaitable[None]], on_request: Callable[[HttpRequest], HttpResponse]
    ) -> None:
        self._on_socket = on_socket
        self._on_request = on_request
        self._open: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one TCP connection. Errors of a client are contained here."""
        self._open[writer] = asyncio.current_task()
        try:
            await self._serve(reader, writer)
        except (ProtocolError, OSError, EOFError, ValueError, asyncio.LimitOverrunError):
            pass
        finally:
            del self._open[writer]
            writer.transport.abort()

    async def abort_all(self) -> None:
        """Reset every connection and wait until their tasks have ended."""
        tasks = [task for task in self._open.values() if task]
        for writer in list(self._open):
            writer.transport.abort()
        if tasks:
            await asyncio.wait(tasks, timeout=_PARTING_S)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            if len(head) > _MAX_HEAD:
                return
            method, path, headers = _parse(head)
            if headers.get("upgrade", "").lower() == "websocket":
                socket = WebSocket(reader, writer, head)
                if socket.accept():
                    await self._on_socket(socket)
                return
            response = self._on_request(HttpRequest(method, path, headers, await _body(reader, headers)))
            writer.write(_render(response))
            await writer.drain()
            if headers.get("connection", "").lower() == "close":
                writer.close()
                return


def _parse(head: bytes) -> tuple[str, str, dict[str, str]]:
    lines = head.decode("latin-1").split("\r\n")
    parts = lines[0].split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1"):
        raise ProtocolError("not HTTP/1")
    pairs = (line.partition(":") for line in lines[1:] if ":" in line)
    return parts[0], parts[1], {name.strip().lower(): value.strip() for name, _, value in pairs}


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if "chunked" not in headers.get("transfer-encoding", ""):
        size = int(headers.get("content-length", "0"))
        if not 0 <= size <= _MAX_BODY:
            raise ProtocolError("invalid body size")
        return await reader.readexactly(size)
    body = bytearray()
    while True:
        size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
        if size < 0 or len(body) + size > _MAX_BODY:
            raise ProtocolError("invalid body size")
        body += (await reader.readexactly(size + 2))[:-2]
        if size == 0:
            return bytes(body)


def _render(response: HttpResponse) -> bytes:
    phrase = HTTPStatus(response.status).phrase
    head = (
        f"HTTP/1.1 {response.status} {phrase}\r\ncontent-type: {response.content_type}\r\n"
        f"content-length: {len(response.body)}\r\n\r\n"
    )
    return head.encode() + response.body
