"""An embedded HTTP server in the simulator's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn

from wa_orchestrator.simulator.ports import LOCAL, Address, listen


class _Uvicorn(uvicorn.Server):
    """A uvicorn server without signal handlers, with an event for when it serves."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


class HttpServer:
    """One ASGI application on one port."""

    def __init__(self, app: Any, address: Address = LOCAL) -> None:
        self._app = app
        self._address = address
        self._server: _Uvicorn | None = None
        self._task: asyncio.Task[None] | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://{self._address.name}:{self.port}"

    async def start(self, port: int = 0) -> None:
        """Serve on `port`, or on a free one for 0. Returns when it accepts requests."""
        sock = listen(port, self._address.bind)
        self.port = sock.getsockname()[1]
        config = uvicorn.Config(
            self._app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1, ws="none"
        )
        self._server = _Uvicorn(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[sock]))
        ready = asyncio.create_task(self._server.ready.wait())
        await asyncio.wait({self._task, ready}, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            ready.cancel()
            await self._task

    async def stop(self) -> None:
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            await self._task
