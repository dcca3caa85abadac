"""Lets a door answer on the connection itself: uvicorn parses the request, and the answer leaves in one write.

This is uvicorn's own protocol (`uvicorn.Config(http=…)` takes a class). A request for a door gets a cycle of ours in
the place of uvicorn's ASGI cycle; order, keep-alive and flow control of the connection stay uvicorn's, and whatever is
not for a door goes its usual way.

A client writes the same head again and again. What a head means is in its bytes alone, so a head that the parser has
read once is known by them the next time, and a request that has one and is whole is not parsed again.
"""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, ClassVar, Final, NamedTuple

from starlette.types import Message, Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from wa_orchestrator.gateway.routes.send import HEADERS, Door, Told

_STATUS: Final = {each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\n".encode() for each in HTTPStatus}
#: Longer bodies need uvicorn's flow control, and shorter ones come in one or two pieces.
_SHORT_BYTES: Final = 60_000
_END: Final = b"\r\n\r\n"
#: Heads that are remembered. A client has one for each length of its bodies.
_MOST_HEADS: Final = 2000
_LONGEST_HEAD: Final = 2048
#: Heads with it differ each time, and are not worth remembering.
_OWN: Final = (b"content-type", b"content-length")
_UNIQUE: Final = b"idempotency-key"


class _Head(NamedTuple):
    """What the parser said about a head."""

    door: Door
    headers: Mapping[bytes, bytes]
    length: int
    scope: Scope


class DoorProtocol(HttpToolsProtocol):
    """HTTP/1.1 with doors."""

    doors: ClassVar[Mapping[bytes, Door]] = {}
    heads: ClassVar[dict[bytes, _Head]] = {}
    _prefix: ClassVar[tuple[object, int, bytes]] = (None, 0, b"")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._unfinished = 0
        self._piece = b""
        self._for_door: _DoorCycle | None = None
        self._answered_at_s = 0.0

    def data_received(self, data: bytes) -> None:
        """Take a whole request with a known head as it is; let uvicorn parse anything else."""
        cycle: Any = self.cycle
        self._piece = b""
        if not self._unfinished and (cycle is None or cycle.response_complete) and not self.flow.write_paused:
            cut = data.find(_END) + len(_END)
            head = self.heads.get(data[:cut])
            if head is not None and len(data) - cut == head.length:
                self._answer_known(head, data[cut:])
                return
            self._piece = data
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._unfinished += 1
        self._for_door = None
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Go on with a request: a door's own way for a door, else uvicorn's."""
        door = self.doors.get(self.url)
        if door is None or not self._is_simple():
            super().on_headers_complete()
            return
        self.scope["method"], self.scope["path"] = "POST", self.url.decode("ascii")
        before: Any = self.cycle
        cycle: Any = _DoorCycle(self, door, self.scope, keep_alive=self.parser.should_keep_alive())
        self.cycle = self._for_door = cycle
        if before is None or before.response_complete:
            cycle.may_start()
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))

    def on_message_complete(self) -> None:
        """End the reading of a request; the head of one that came in one piece, and alone, is worth remembering."""
        self._unfinished -= 1
        if self._piece and self._for_door is not None:
            self._for_door.head = self._head_of(self._piece, self._for_door)
        super().on_message_complete()

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection if it has been idle for long enough; a known head does not set the clock back."""
        cycle: Any = self.cycle
        is_busy = cycle is not None and not cycle.response_complete and not self.transport.is_closing()
        left_s = self._answered_at_s + self.timeout_keep_alive - self.loop.time()
        if is_busy or left_s > 0:
            pause_s = self.timeout_keep_alive if is_busy else left_s
            self.timeout_keep_alive_task = self.loop.call_later(pause_s, self.timeout_keep_alive_handler)
        else:
            super().timeout_keep_alive_handler()

    def write_answer(self, told: Told, *, keep_alive: bool) -> None:
        """Write a whole answer."""
        status, headers, body = told
        parts = [self._opening(status)]
        parts += [b"%b: %b\r\n" % header for header in headers if header[0] not in _OWN]
        if not keep_alive:
            parts.append(b"connection: close\r\n")
        parts += [b"content-length: %d\r\n\r\n" % len(body), body]
        self.transport.write(b"".join(parts))
        self._answered_at_s = self.loop.time()

    def was_answered(self) -> None:
        """Go on with the next request, if there is one."""
        if self.pipeline or self.flow.read_paused or self.timeout_keep_alive_task is None:
            self.on_response_complete()
        else:
            self.server_state.total_requests += 1

    def _answer_known(self, head: _Head, body: bytes) -> None:
        cycle = _DoorCycle(self, head.door, head.scope, keep_alive=True)
        cycle.body, cycle.more_body = body, False
        self.cycle = cycle  # type: ignore[assignment]
        if not head.door.at_once(head.headers, body, cycle.tell):
            own = {"client": self.client, "server": self.server, "state": self.app_state.copy()}
            cycle.scope = {**head.scope, **own}
            cycle.may_start()

    def _head_of(self, piece: bytes, cycle: "_DoorCycle") -> tuple[bytes, _Head] | None:
        cut = piece.find(_END) + len(_END)
        headers = dict(self.headers)
        is_whole = len(piece) - cut == len(cycle.body)
        if not is_whole or cut > _LONGEST_HEAD or not cycle.keep_alive or _UNIQUE in headers:
            return None
        return piece[:cut], _Head(cycle.door, headers, len(cycle.body), dict(self.scope))

    def remember(self, known: tuple[bytes, _Head]) -> None:
        """Keep the head of a request that was taken in; those of strangers are not worth the room."""
        if len(self.heads) >= _MOST_HEADS:
            self.heads.clear()
        self.heads[known[0]] = known[1]

    def _opening(self, status: int) -> bytes:
        """The first lines of an answer; uvicorn's own headers are made anew every second."""
        defaults = self.server_state.default_headers
        known_defaults, known_status, opening = DoorProtocol._prefix
        if known_defaults is not defaults or known_status != status:
            opening = _STATUS[status] + b"".join(b"%b: %b\r\n" % header for header in [*defaults, *HEADERS])
            DoorProtocol._prefix = (defaults, status, opening)
        return opening

    def _is_simple(self) -> bool:
        """A short POST over HTTP/1.1 that nobody needs to see in a log."""
        if self.parser.get_method() != b"POST" or self.parser.get_http_version() != "1.1" or self.access_log:
            return False
        if self.expect_100_continue or self.limit_concurrency is not None or self.parser.should_upgrade():
            return False
        lengths = [value for name, value in self.headers if name == b"content-length"]
        return len(lengths) == 1 and lengths[0].isdigit() and int(lengths[0]) <= _SHORT_BYTES

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        """Begin what waited for its turn."""
        if isinstance(cycle, _DoorCycle):
            cycle.may_start()
        else:
            super()._start_asgi_task(cycle, app)


class _DoorCycle:
    """One request for a door. It has what uvicorn's protocol expects of its own cycles."""

    __slots__ = ("_has_turn", "_protocol", "body", "disconnected", "door", "head", "keep_alive", "more_body",
                 "response_complete", "scope")  # fmt: skip

    def __init__(self, protocol: DoorProtocol, door: Door, scope: Any, *, keep_alive: bool) -> None:
        self._protocol = protocol
        self._has_turn = False
        self.door = door
        self.scope = scope
        self.body = b""
        self.more_body = True
        self.disconnected = False
        self.response_complete = False
        self.keep_alive = keep_alive
        self.head: tuple[bytes, _Head] | None = None

    @property
    def message_event(self) -> "_DoorCycle":
        """What uvicorn sets whenever something about the request is new."""
        return self

    def may_start(self) -> None:
        """It is this request's turn on its connection."""
        self._has_turn = True
        self.set()

    def set(self) -> None:
        """Start when it is the request's turn and its body is whole."""
        if self._has_turn and not self.more_body and not self.disconnected:
            self._has_turn = False
            protocol = self._protocol
            task = protocol.loop.create_task(self._answer())
            protocol.tasks.add(task)
            task.add_done_callback(protocol.tasks.discard)

    async def receive(self) -> Message:
        """Give the body, as ASGI does."""
        return {"type": "http.request", "body": self.body, "more_body": False}

    def tell(self, told: Told) -> None:
        """Answer the request, if somebody still listens."""
        protocol = self._protocol
        if self.disconnected or protocol.transport.is_closing():
            return
        protocol.write_answer(told, keep_alive=self.keep_alive)
        self.response_complete = True
        if self.head is not None and told[0] == HTTPStatus.ACCEPTED:
            protocol.remember(self.head)
        if not self.keep_alive:
            protocol.transport.close()
        protocol.was_answered()

    async def _answer(self) -> None:
        protocol = self._protocol
        try:
            told = await self.door.tell(self.scope, self.receive)
        except asyncio.CancelledError:
            protocol.transport.close()
            raise
        if protocol.flow.write_paused and not self.disconnected:
            await protocol.flow.drain()
        self.tell(told)


def protocol(doors: Mapping[str, Door]) -> type[DoorProtocol]:
    """Give the protocol with these doors, by path."""
    own = {"doors": {path.encode(): door for path, door in doors.items()}, "heads": {}}
    return type("GatewayProtocol", (DoorProtocol,), own)
