"""uvicorn's HTTP protocol with a shortcut for the send routes: no ASGI, and each response leaves in one write.

`uvicorn.Config(http=…)` takes the class. A send request gets a cycle of ours in place of uvicorn's ASGI cycle; order,
keep-alive and flow control of the connection stay uvicorn's, and every other request is handled as usual.

Clients send the same request head again and again. What a head means depends on its bytes alone, so a head that was
parsed once is recognised by its bytes, and a complete request with a known head is not parsed again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, ClassVar, Final, NamedTuple

from starlette.requests import Request
from starlette.types import Scope

from wa_orchestrator.gateway.acceptance import SendReply
from wa_orchestrator.gateway.routes.send import REPLAYED
from wa_orchestrator.web import problems
from wa_orchestrator.web.app import API_HEADERS
from wa_orchestrator.web.http_protocol import GuardedProtocol

OnAccepted = Callable[[str | Exception], None]
"""Takes the JSON of a 202, or the error."""
Handler = Callable[[Request, bytes], Awaitable[SendReply]]
"""Accepts the message of a request with this body; raises the error for the client."""
TrySend = Callable[[Mapping[bytes, bytes], bytes, OnAccepted], bool]
"""Accepts a message, given headers and body, and calls back; False, with nothing done, where the handler must do it."""
IsKnown = Callable[[Mapping[bytes, bytes]], bool]
"""Whether the key in these headers was looked up a moment ago and may send."""

_STATUS: Final = {each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\n".encode() for each in HTTPStatus}
#: Longer bodies need uvicorn's flow control.
_MAX_BODY: Final = 60_000
_MAX_STRANGERS_BODY: Final = 4096
_HEAD_END: Final = b"\r\n\r\n"
#: Heads that are kept. A client has one for each length of its bodies.
_MAX_HEADS: Final = 2000
_LONGEST_HEAD: Final = 2048
#: Heads with this header differ each time and are not kept.
_UNIQUE: Final = b"idempotency-key"
_REPLAYED: Final = tuple((name.encode(), value.encode()) for name, value in REPLAYED)
_JSON: Final = (b"content-type", b"application/json")
#: Headers of a response that the protocol writes itself.
_OWN: Final = frozenset({b"content-type", b"content-length"})


class Shortcut(NamedTuple):
    """The routes that are handled without ASGI: at once by `try_send`, else by `handler` in a task."""

    paths: frozenset[bytes]
    handler: Handler
    try_send: TrySend
    is_known: IsKnown


class _Head(NamedTuple):
    """The parsed head of a request."""

    headers: Mapping[bytes, bytes]
    body_length: int
    scope: Scope


class SendProtocol(GuardedProtocol):
    """HTTP/1.1 with the shortcut. `make_protocol` fills in the class variables."""

    shortcut: ClassVar[Shortcut]
    heads: ClassVar[dict[bytes, _Head]]
    _prefix: ClassVar[tuple[object, int, bytes]] = (None, 0, b"")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._unfinished = 0
        self._packet = b""
        self._send_cycle: _SendCycle | None = None
        self._responded_at_s = 0.0

    def data_received(self, data: bytes) -> None:
        """Handle a complete request with a known head; let uvicorn parse anything else."""
        cycle: Any = self.cycle
        self._packet = b""
        if not self._unfinished and (cycle is None or cycle.response_complete) and not self.flow.write_paused:
            cut = data.find(_HEAD_END) + len(_HEAD_END)
            head = self.heads.get(data[:cut])
            if head is not None and len(data) - cut == head.body_length:
                self._handle_known(head, data[cut:])
                return
            self._packet = data
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._unfinished += 1
        self._send_cycle = None
        super().on_message_begin()

    def handle_head(self) -> None:
        """Give a send request a cycle of ours, any other one uvicorn's."""
        if self.url not in self.shortcut.paths or not self._is_simple():
            super().handle_head()
            return
        path = self.url.decode("ascii")
        self.scope.update({"method": "POST", "path": path, "raw_path": self.url, "query_string": b""})
        previous: Any = self.cycle
        cycle: Any = _SendCycle(self, self.scope, keep_alive=self.parser.should_keep_alive())
        self.cycle = self._send_cycle = cycle
        if previous is None or previous.response_complete:
            cycle.start()
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))

    def on_message_complete(self) -> None:
        """End the reading of a request. The head of one that came alone and in one packet may be kept."""
        self._unfinished -= 1
        if self._packet and self._send_cycle is not None:
            self._send_cycle.head = self._head_of(self._packet, self._send_cycle)
        super().on_message_complete()

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection if it was idle for long enough; known heads do not reset uvicorn's timer."""
        cycle: Any = self.cycle
        is_busy = cycle is not None and not cycle.response_complete and not self.transport.is_closing()
        left_s = self._responded_at_s + self.timeout_keep_alive - self.loop.time()
        if is_busy or left_s > 0:
            pause_s = self.timeout_keep_alive if is_busy else left_s
            self.timeout_keep_alive_task = self.loop.call_later(pause_s, self.timeout_keep_alive_handler)
        else:
            super().timeout_keep_alive_handler()

    def write_json(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes, *, keep_alive: bool) -> None:
        """Write a whole response, and go on with the next request if there is one."""
        parts = [self._first_lines(status)]
        parts += [b"%b: %b\r\n" % header for header in headers]
        if not keep_alive:
            parts.append(b"connection: close\r\n")
        parts += [b"content-length: %d\r\n\r\n" % len(body), body]
        self.transport.write(b"".join(parts))
        self._responded_at_s = self.loop.time()
        if not keep_alive:
            self.transport.close()
        if self.pipeline or self.flow.read_paused or self.timeout_keep_alive_task is None:
            self.on_response_complete()
        else:
            self.server_state.total_requests += 1

    def _handle_known(self, head: _Head, body: bytes) -> None:
        self.end_reading()
        cycle = _SendCycle(self, head.scope, keep_alive=True)
        cycle.body, cycle.more_body = body, False
        self.cycle = cycle  # type: ignore[assignment]
        if not self.shortcut.try_send(head.headers, body, cycle.finish):
            own = {"client": self.client, "server": self.server, "state": self.app_state.copy()}
            cycle.scope = {**head.scope, **own}
            cycle.start()

    def _head_of(self, packet: bytes, cycle: "_SendCycle") -> tuple[bytes, _Head] | None:
        cut = packet.find(_HEAD_END) + len(_HEAD_END)
        headers = dict(self.headers)
        is_whole = len(packet) - cut == len(cycle.body)
        if not is_whole or cut > _LONGEST_HEAD or not cycle.keep_alive or _UNIQUE in headers:
            return None
        return packet[:cut], _Head(headers, len(cycle.body), dict(self.scope))

    def _first_lines(self, status: int) -> bytes:
        """Return the status line and the headers of every response; uvicorn replaces its own every second."""
        defaults = self.server_state.default_headers
        known_defaults, known_status, lines = SendProtocol._prefix
        if known_defaults is not defaults or known_status != status:
            lines = _STATUS[status] + b"".join(b"%b: %b\r\n" % header for header in [*defaults, _JSON, *API_HEADERS])
            SendProtocol._prefix = (defaults, status, lines)
        return lines

    def _is_simple(self) -> bool:
        """Whether it is a short POST over HTTP/1.1 that needs no access log."""
        if self.parser.get_method() != b"POST" or self.parser.get_http_version() != "1.1" or self.access_log:
            return False
        if self.expect_100_continue or self.limit_concurrency is not None or self.parser.should_upgrade():
            return False
        lengths = [value for name, value in self.headers if name == b"content-length"]
        if len(lengths) != 1 or not lengths[0].isdigit():
            return False
        # Here a body is read before its key is looked up; a longer one of a stranger must not be.
        is_short = int(lengths[0]) <= _MAX_STRANGERS_BODY
        return is_short or (int(lengths[0]) <= _MAX_BODY and self.shortcut.is_known(dict(self.headers)))

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        """Start a request that waited for the one before it on its connection."""
        if isinstance(cycle, _SendCycle):
            cycle.start()
        else:
            super()._start_asgi_task(cycle, app)


class _SendCycle:
    """One send request. It has the attributes that uvicorn's protocol expects of its own cycles."""

    __slots__ = ("_is_started", "_protocol", "body", "disconnected", "head", "keep_alive", "more_body",
                 "response_complete", "scope")  # fmt: skip

    def __init__(self, protocol: SendProtocol, scope: Any, *, keep_alive: bool) -> None:
        self._protocol = protocol
        self._is_started = False
        self.scope = scope
        self.body = b""
        self.more_body = True
        self.disconnected = False
        self.response_complete = False
        self.keep_alive = keep_alive
        self.head: tuple[bytes, _Head] | None = None

    @property
    def message_event(self) -> "_SendCycle":
        """What uvicorn sets when a part of the body arrives or the client disconnects."""
        return self

    def start(self) -> None:
        """Handle the request as soon as its body is complete."""
        self._is_started = True
        self.set()

    def set(self) -> None:
        """Create the task that handles the request, once it is started and complete."""
        if self._is_started and not self.more_body and not self.disconnected:
            self._is_started = False
            protocol = self._protocol
            task = protocol.loop.create_task(self._handle())
            protocol.tasks.add(task)
            task.add_done_callback(protocol.tasks.discard)

    def finish(self, outcome: str | Exception, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        """Write 202 with this JSON and these headers, or the error, unless the client has disconnected."""
        protocol = self._protocol
        if isinstance(outcome, str):
            status, body = 202, outcome.encode()
        else:
            response = problems.to_response(outcome)
            status, body = response.status_code, bytes(response.body)
            headers = [header for header in response.raw_headers if header[0] not in _OWN]
        if self.disconnected or protocol.transport.is_closing():
            return
        self.response_complete = True
        if self.head is not None and status == HTTPStatus.ACCEPTED:  # heads of strangers are not worth the memory
            if len(protocol.heads) >= _MAX_HEADS:
                protocol.heads.clear()
            protocol.heads.update([self.head])
        protocol.write_json(status, headers, body, keep_alive=self.keep_alive)

    async def _handle(self) -> None:
        protocol = self._protocol
        outcome: str | Exception
        headers: Sequence[tuple[bytes, bytes]] = ()
        try:
            reply = await protocol.shortcut.handler(Request(self.scope), bytes(self.body))
            outcome, headers = reply.json, _REPLAYED if reply.is_replay else ()
        except asyncio.CancelledError:
            protocol.transport.close()
            raise
        except Exception as error:
            outcome = error
        if protocol.flow.write_paused and not self.disconnected:
            await protocol.flow.drain()
        self.finish(outcome, headers)


def make_protocol(paths: Sequence[str], handler: Handler, try_send: TrySend, is_known: IsKnown) -> type[SendProtocol]:
    """Return the protocol class for these routes."""
    shortcut = Shortcut(frozenset(path.encode() for path in paths), handler, try_send, is_known)
    return type("GatewayProtocol", (SendProtocol,), {"shortcut": shortcut, "heads": {}})
