"""Serves ASGI applications with uvicorn on sockets that are bound before anything else starts."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn
from starlette.types import ASGIApp

from wa_orchestrator.errors import BadSettings
from wa_orchestrator.server.preflight import bind, port_problem
from wa_orchestrator.web.connections import Connections, Limits
from wa_orchestrator.web.http_protocol import GuardedProtocol, ListenerConfig

#: Workers long-poll for messages and reconnect by themselves, so open requests need not finish.
_GRACE_S = 2


def listen(host: str, port: int, variable: str) -> socket.socket:
    """Bind a port; 0 picks a free one. Raises BadSettings that names the variable."""
    try:
        return bind(host, port)
    except OSError as error:
        raise BadSettings(port_problem(variable, host, port, error)) from error


class UvicornServer(uvicorn.Server):
    """A uvicorn server without signal handlers."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing: `bootstrap` handles signals."""
        yield


@contextlib.asynccontextmanager
async def serving(
    app: ASGIApp, bound: socket.socket, limits: Limits, http: type[GuardedProtocol] = GuardedProtocol
) -> AsyncIterator[None]:
    """Serve an application on a bound socket while the block runs. `http` is its protocol."""
    connections = Connections(limits)
    config = ListenerConfig(
        app,
        connections=connections,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        timeout_graceful_shutdown=_GRACE_S,
        timeout_keep_alive=75,
        lifespan="on",
        http=http,
        ws="none",
        # Without a list uvicorn would believe everybody on this machine, workers among them.
        proxy_headers=bool(limits.trusted),
        forwarded_allow_ips=list(limits.trusted),
    )
    server = UvicornServer(config)
    task = asyncio.create_task(server.serve(sockets=[bound]))
    sweeper = asyncio.create_task(connections.run())
    try:
        while not server.started and not task.done():  # noqa: ASYNC110 (uvicorn offers no event)
            await asyncio.sleep(0.01)
        if task.done():
            await task
        yield
    finally:
        sweeper.cancel()
        server.should_exit = True
        await task
        bound.close()
