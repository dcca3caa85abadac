"""Serves HTTP applications on sockets that are bound before anything else starts."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn
from starlette.types import ASGIApp

from wa_orchestrator.errors import BadSettings

#: Workers hold connections open to wait for messages; they come back by themselves.
_GOODBYE_S = 2


def listen(host: str, port: int, variable: str) -> socket.socket:
    """Bind a port; 0 takes any free one. Raises BadSettings naming the variable when it is taken."""
    family, kind, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    bound = socket.socket(family, kind)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise BadSettings(
            f"{variable}: port {port} on {host} cannot be had ({error.strerror}). Example: {variable}={port + 10}"
        ) from error
    return bound


class Server(uvicorn.Server):
    """A server that leaves signals to the process it is part of."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing: `bootstrap` decides what a signal means."""
        yield

    def end(self) -> None:
        """Ask it to finish; what still waits after a moment is cut off."""
        self.should_exit = True


def make_server(app: ASGIApp) -> Server:
    """Make the server for an application; `await server.serve(sockets=[…])` runs it."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        timeout_graceful_shutdown=_GOODBYE_S,
        timeout_keep_alive=75,
        lifespan="on",
        http=getattr(app, "http_protocol", "auto"),  # the gateway's front answers its own doors on the connection
    )
    return Server(config)


@contextlib.asynccontextmanager
async def serving(app: ASGIApp, bound: socket.socket) -> AsyncIterator[None]:
    """Serve an application on a bound socket while the block runs."""
    server = make_server(app)
    task = asyncio.create_task(server.serve(sockets=[bound]))
    try:
        while not server.started and not task.done():  # noqa: ASYNC110 (uvicorn offers no event)
            await asyncio.sleep(0.01)
        if task.done():
            await task
        yield
    finally:
        server.end()
        await task
        bound.close()
