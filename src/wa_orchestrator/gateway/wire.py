"""Lets a door answer on the connection itself: uvicorn parses the request, and the answer leaves in one write.

This is uvicorn's own protocol (`uvicorn.Config(http=…)` takes a class). A request for a door gets a cycle of ours in
the place of uvicorn's ASGI cycle; order, keep-alive and flow control of the connection stay uvicorn's, and whatever is
not for a door goes its usual way.
"""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, ClassVar, Final

from starlette.types import Message
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from wa_orchestrator.gateway.doors import Door

_STATUS: Final = {each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\n".encode() for each in HTTPStatus}
#: Longer bodies need uvicorn's flow control, and shorter ones come in one or two pieces.
_SHORT_BYTES: Final = 60_000


class DoorProtocol(HttpToolsProtocol):
    """HTTP/1.1 with doors."""

    doors: ClassVar[Mapping[bytes, Door]] = {}

    def on_headers_complete(self) -> None:
        """Begin a request: a door's own way for a door, else uvicorn's."""
        door = self.doors.get(self.url)
        if door is None or not self._is_simple():
            super().on_headers_complete()
            return
        self.scope["method"], self.scope["path"] = "POST", self.url.decode("ascii")
        before: Any = self.cycle
        cycle: Any = _DoorCycle(self, door, self.scope)
        self.cycle = cycle
        if before is None or before.response_complete:
            cycle.may_start()
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))

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

    __slots__ = ("_door", "_has_turn", "_protocol", "_scope", "body", "disconnected", "keep_alive", "message_event",
                 "more_body", "response_complete")  # fmt: skip

    def __init__(self, protocol: DoorProtocol, door: Door, scope: Any) -> None:
        self._protocol = protocol
        self._door = door
        self._scope = scope
        self._has_turn = False
        self.body = bytearray()
        self.more_body = True
        self.disconnected = False
        self.response_complete = False
        self.keep_alive: bool = protocol.parser.should_keep_alive()
        self.message_event = self  # uvicorn sets it whenever something about the request is new

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
        return {"type": "http.request", "body": bytes(self.body), "more_body": False}

    async def _answer(self) -> None:
        protocol = self._protocol
        try:
            status, headers, body = await self._door.tell(self._scope, self.receive)
        except asyncio.CancelledError:
            protocol.transport.close()
            raise
        if protocol.flow.write_paused and not self.disconnected:
            await protocol.flow.drain()
        if self.disconnected:
            return
        lines = [_STATUS[status], b"content-length: %d\r\n" % len(body)]
        lines += [b"%b: %b\r\n" % header for header in protocol.server_state.default_headers]
        lines += [b"%b: %b\r\n" % header for header in headers]
        lines += [b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n", body]
        protocol.transport.write(b"".join(lines))
        self.response_complete = True
        if not self.keep_alive:
            protocol.transport.close()
        protocol.on_response_complete()


def protocol(doors: Mapping[str, Door]) -> type[DoorProtocol]:
    """Give the protocol with these doors, by path."""
    return type("GatewayProtocol", (DoorProtocol,), {"doors": {path.encode(): door for path, door in doors.items()}})
