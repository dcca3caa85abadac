"""Lets a door answer on the connection itself: uvicorn parses the request, and the answer leaves in one write.

This is uvicorn's own protocol (`uvicorn.Config(http=…)` takes a class) with one method replaced. Whatever is not for a
door goes its usual way through ASGI.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, ClassVar, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from wa_orchestrator.gateway.doors import Door

_STATUS: Final = {each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\n".encode() for each in HTTPStatus}


class DoorProtocol(HttpToolsProtocol):
    """HTTP/1.1 with doors. Order, keep-alive and flow control of the connection stay uvicorn's."""

    doors: ClassVar[Mapping[str, Door]] = {}

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        door = self.doors.get(cycle.scope["path"])
        if door is None or cycle.scope["method"] != "POST" or cycle.access_log:
            super()._start_asgi_task(cycle, app)
            return
        task = self.loop.create_task(_answer(cycle, door))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)


def protocol(doors: Mapping[str, Door]) -> type[DoorProtocol]:
    """Give the protocol with these doors, by path."""
    return type("GatewayProtocol", (DoorProtocol,), {"doors": doors})


async def _answer(cycle: RequestResponseCycle, door: Door) -> None:
    """Let the door answer, and end the request as uvicorn would."""
    status, headers, body = await door.tell(cycle.scope, cycle.receive)  # type: ignore[arg-type]
    if cycle.flow.write_paused and not cycle.disconnected:
        await cycle.flow.drain()
    if cycle.disconnected:
        return
    cycle.response_started = cycle.response_complete = True
    closing = b"" if cycle.keep_alive else b"connection: close\r\n"
    lines = b"".join([b"%b: %b\r\n" % header for header in (*cycle.default_headers, *headers)])
    cycle.transport.write(b"%bcontent-length: %d\r\n%b%b\r\n%b" % (_STATUS[status], len(body), lines, closing, body))
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
