"""Puts an HTTP service together: routers, errors, OpenAPI, headers."""

from collections.abc import Sequence
from importlib.metadata import version

from fastapi import APIRouter, FastAPI, HTTPException
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wa_orchestrator.context import Context
from wa_orchestrator.errors import Refused
from wa_orchestrator.web import docs, problems

#: A batch of 1,000 long texts fits; uploads have a limit of their own.
MOST_BODY_BYTES = 32 * 1024 * 1024
UPLOADS = "/api/v1/uploads"
_POLICY = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; object-src 'none'"

DESCRIPTION = """Runs an operator's own WhatsApp accounts: one isolated worker and one fixed exit address each.

Every route of the API wants a key as `X-API-Key`. `wa-orchestrator secrets` shows the first one, the dashboard's
settings make more. To try routes on this page, press *Authorize* and paste it.

Errors look alike everywhere: `{"error": {"code", "message", …}}`. `code` is stable; `message` says what to do.
"""


class Guard:
    """Adds the security headers to every answer and refuses bodies that are too long, whether they say so or not."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                _protect(MutableHeaders(scope=message), str(scope["path"]))
            await send(message)

        if _too_long(scope):
            refused = Refused("BODY_TOO_LONG", f"The body is longer than {MOST_BODY_BYTES} bytes. Send less.", 413)
            await problems.answer(refused)(scope, receive, with_headers)
            return
        await self._app(scope, receive if _has_own_limit(scope) else _limited(receive), with_headers)


def _limited(receive: Receive) -> Receive:
    """Stop a body that does not say its length: routes hold it in memory before they know who sends it."""
    size = 0

    async def counted() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > MOST_BODY_BYTES:
            raise HTTPException(413)
        return message

    return counted


def _has_own_limit(scope: Scope) -> bool:
    return str(scope["path"]).startswith(UPLOADS)


def _too_long(scope: Scope) -> bool:
    length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    return not _has_own_limit(scope) and length.isdigit() and int(length) > MOST_BODY_BYTES


def _protect(headers: MutableHeaders, path: str) -> None:
    headers.setdefault("X-Content-Type-Options", "nosniff")
    headers.setdefault("Referrer-Policy", "no-referrer")
    headers.setdefault("X-Frame-Options", "DENY")
    headers.setdefault("Content-Security-Policy", _POLICY)  # /docs and the dashboard have stricter ones
    if path.startswith("/api"):
        headers.setdefault("Cache-Control", "no-store")


def make_app(context: Context, routers: Sequence[APIRouter], *, title: str = "WhatsApp Orchestrator") -> FastAPI:
    """Make the service that offers these routers."""
    app = FastAPI(
        title=title, version=version("wa-orchestrator"), description=DESCRIPTION, docs_url=None, redoc_url=None
    )
    app.state.context = context
    docs.install(app)
    problems.install(app)
    app.add_middleware(Guard)
    for router in routers:
        app.include_router(router, responses={} if "health" in router.tags else problems.responses())
    return app
