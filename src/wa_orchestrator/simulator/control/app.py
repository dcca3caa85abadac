"""HTTP API that controls the simulator, for tests, the demo and the dashboard's scan button."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from wa_orchestrator.simulator.control.phone_routes import PhoneRoutes
from wa_orchestrator.simulator.control.world_routes import WorldRoutes
from wa_orchestrator.simulator.errors import SimulatorError
from wa_orchestrator.simulator.ports import LOOPBACK
from wa_orchestrator.simulator.proxies.pool import SocksPool
from wa_orchestrator.simulator.proxies.socks_server import SocksServer
from wa_orchestrator.simulator.telegram import Telegram
from wa_orchestrator.web import docs

if TYPE_CHECKING:
    from wa_orchestrator.simulator.whatsapp.server import WhatsApp

#: Errors with status 404.
NOT_FOUND = frozenset({"UNKNOWN_PROXY", "NO_MEDIA"})
LOCAL_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})


class ControlApi:
    """The application with all routes."""

    def __init__(
        self,
        whatsapp: WhatsApp,
        pool: SocksPool,
        telegram: Telegram,
        add_proxy: Callable[[], Awaitable[SocksServer]],
        name: str = LOOPBACK,
    ) -> None:
        """`name` is served as well as this machine's own names."""
        self._hosts = LOCAL_HOSTS | {name}
        self._parts = (PhoneRoutes(whatsapp), WorldRoutes(whatsapp, pool, telegram, add_proxy))

    def app(self) -> ASGIApp:
        """Return the application, protected against requests of web pages."""
        app = FastAPI(title="Simulator", docs_url=None, redoc_url=None)
        docs.install(app)
        app.add_exception_handler(SimulatorError, _refused)
        app.add_exception_handler(RequestValidationError, _invalid)
        app.add_exception_handler(HTTPException, _http_error)
        for part in self._parts:
            app.include_router(part.router())
        return KnownHostsOnly(app, self._hosts)


class KnownHostsOnly:
    """Refuses requests of web pages: those with an `Origin`, and those for another host name.

    A page in the operator's browser can send requests to loopback, and with DNS rebinding read the responses.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (reason := refusal(dict(scope["headers"]), self._hosts)):
            response = _error(403, "FORBIDDEN", reason)
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)


def refusal(headers: dict[bytes, bytes], hosts: Collection[str] = LOCAL_HOSTS) -> str | None:
    """Return why a request with these headers is refused, or None."""
    if b"origin" in headers:
        return "Requests of web pages are refused; send it without an Origin header."
    host = re.sub(r":\d+$", "", headers.get(b"host", b"").decode("latin-1").lower())
    if host not in hosts:
        return f"Only {' and '.join(sorted(hosts))} are served, not {host!r}."
    return None


def _error(status: int, code: str, text: str) -> JSONResponse:
    return JSONResponse({"code": code, "error": text}, status_code=status)


async def _refused(_request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, SimulatorError):  # only registered for this class; the signature is FastAPI's
        raise error
    return _error(404 if error.code in NOT_FOUND else 409, error.code, error.text)


async def _invalid(_request: Request, error: Exception) -> JSONResponse:
    found = error.errors() if isinstance(error, RequestValidationError) else []
    texts = [f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in found]
    return _error(422, "INVALID", "; ".join(texts))


async def _http_error(_request: Request, error: Exception) -> JSONResponse:
    status = error.status_code if isinstance(error, HTTPException) else 500
    text = "No such path or method; GET / lists all." if status in (404, 405) else str(error)
    return _error(status, "NOT_FOUND" if status == 404 else "METHOD_NOT_ALLOWED" if status == 405 else "FAILED", text)
