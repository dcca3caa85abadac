"""uvicorn's HTTP protocol with limits for strangers: connections, size and time of heads, time of bodies and readers.

`ListenerConfig` carries the limits. Errors that a client causes by hanging up, or by sending what is not HTTP,
are not logged: anybody could fill the log with them.
"""

import asyncio
import json
from http import HTTPStatus
from typing import Any, Final

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from wa_orchestrator.web.connections import NEVER, SLOWEST_BODY_BYTES_PER_S, Connections, Limits, client_of

#: How long the rest of a body is thrown away after its request was answered. Closed at once, clients might not get the
#: answer: what is unread makes the kernel reset the connection.
_LINGER_S: Final = 2.0
_HEAD_TOO_LARGE: Final = "HEAD_TOO_LARGE", "The request line and headers are too long. Send fewer or shorter ones."
_NOT_HTTP: Final = "BAD_REQUEST", "This is not a valid HTTP/1.1 request."
_TOO_SLOW: Final = "REQUEST_TIMEOUT", "The request did not arrive in time. Send it again."


class ListenerConfig(uvicorn.Config):
    """uvicorn's configuration of one listener, and its connections."""

    def __init__(self, *args: Any, connections: Connections, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.connections = connections


#: For a listener without limits of its own, as tests start one.
_DEFAULT: Final = Connections(Limits(connections=100_000, per_address=100_000))


class GuardedProtocol(HttpToolsProtocol):
    """HTTP/1.1 with limits."""

    def __init__(self, config: uvicorn.Config, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, *args, **kwargs)
        self._all: Connections = getattr(config, "connections", _DEFAULT)
        self._limits = self._all.limits
        self.address = self.local_address = ""
        self._read_by = NEVER
        self._is_refused = False
        self._in_head = True
        self._in_body = False
        self._head_bytes = 0
        self._unread_since = NEVER

    @property
    def overdue_at(self) -> float:
        """When the client has taken too long to send or to read."""
        return min(self._read_by, self._unread_since + self._limits.write_s)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, or close it if it is one too many."""
        peer, local = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        self.address = client_of(str(peer[0])) if isinstance(peer, tuple) else ""
        self.local_address = str(local[0]) if isinstance(local, tuple) else ""
        if not self._all.admit(self):
            self.transport, self._is_refused = transport, True
            transport.abort()
            return
        super().connection_made(transport)
        self._read_by = self.loop.time() + self._limits.head_s

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._all.forget(self)
        self._read_by = NEVER
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what arrived; refuse a head that is too long, and what is not HTTP."""
        if self._is_refused:
            return
        self._unset_keepalive_if_required()
        if self._read_by == NEVER:
            self._read_by = self.loop.time() + self._limits.head_s
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # there is no WebSocket here; the request was answered as an ordinary one
        except httptools.HttpParserError:
            if not self._is_refused:
                self._refuse(HTTPStatus.BAD_REQUEST, _NOT_HTTP)
        if self._in_head and not self._is_refused:
            self._head_bytes += len(data)
            if self._head_bytes > self._limits.head_bytes:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, _HEAD_TOO_LARGE)

    def on_message_begin(self) -> None:
        """Begin a request: its head must arrive in time."""
        self._in_head, self._head_bytes = True, 0
        self._read_by = self.loop.time() + self._limits.head_s
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Check the size of a whole head; the body must arrive in time."""
        self._in_head, self._head_bytes = False, 0
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > self._limits.head_bytes:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, _HEAD_TOO_LARGE)
            return
        self.begin_body()
        self.handle_head()

    def begin_body(self) -> None:
        """Expect the body of a request."""
        self._in_body = True
        self._read_by = self.loop.time() + self._limits.body_s

    def handle_head(self) -> None:
        """Start the request: a subclass may do it in another way."""
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body, which gives the rest more time."""
        if self._is_refused:
            return
        if not self.cycle.response_complete:
            self._read_by += len(body) / SLOWEST_BODY_BYTES_PER_S
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the reading of a request: nothing is expected of the client."""
        if self._is_refused:
            return
        self.end_reading()
        super().on_message_complete()

    def end_reading(self) -> None:
        """Expect nothing more."""
        self._in_head = self._in_body = False
        self._read_by = NEVER

    def on_response_complete(self) -> None:
        """Go on with the next request. One that was answered before its body had arrived has little time left."""
        if self._in_body:
            self._read_by = min(self._read_by, self.loop.time() + _LINGER_S)
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Note that the client does not read."""
        self._unread_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Note that the client reads again."""
        self._unread_since = NEVER
        super().resume_writing()

    def close_overdue(self, now: float) -> None:
        """Close the connection of a client that took too long; one whose body we are slow to read gets more time."""
        if self._unread_since + self._limits.write_s <= now:
            self.transport.abort()
        elif self._in_body and self.flow.read_paused and not self.cycle.response_complete:
            self._read_by = now + self._limits.body_s
        elif self._in_body and not self._has_begun_response():
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, _TOO_SLOW)
        else:
            self.transport.abort()

    def _has_begun_response(self) -> bool:
        cycle: Any = self.cycle
        return cycle is None or cycle.response_complete or bool(getattr(cycle, "response_started", False))

    def _refuse(self, status: HTTPStatus, error: tuple[str, str]) -> None:
        """Answer what never becomes a request, and close the connection."""
        self._is_refused = True
        self._read_by = NEVER
        if self.transport.is_closing():
            return
        body = json.dumps({"error": {"code": error[0], "message": error[1]}}).encode()
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n"
        head += f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode() + body)
        self.transport.close()
