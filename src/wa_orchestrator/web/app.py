"""Assembles an HTTP service: routers, errors, OpenAPI, headers."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Final

from fastapi import APIRouter, FastAPI, HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wa_orchestrator.context import Context
from wa_orchestrator.web import docs, openapi, problems, request_body

#: A batch of 1,000 long texts fits; uploads have a limit of their own.
MOST_BODY_BYTES = 32 * 1024 * 1024
UPLOADS = "/api/v1/uploads"
#: What every response carries; the content security policies of /docs and the dashboard are stricter.
SECURITY_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (
        b"content-security-policy",
        b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'; object-src 'none'",
    ),
)
API_HEADERS: Final = (*SECURITY_HEADERS, (b"cache-control", b"no-store"))


class Guard:
    """Adds the security headers to every response and refuses bodies that are too long, also without Content-Length."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add_headers(message, API_HEADERS if str(scope["path"]).startswith("/api") else SECURITY_HEADERS)
            await send(message)

        app = self._app
        if not scope["path"].startswith(UPLOADS):
            # Routes hold a body in memory before they know who sends it. FastAPI passes on an HTTPException only.
            receive = request_body.limited(receive, MOST_BODY_BYTES, HTTPException(413))
            if (request_body.declared_bytes(scope) or 0) > MOST_BODY_BYTES:
                app = problems.answer(request_body.too_long(MOST_BODY_BYTES))
        await app(scope, receive, with_headers)


def _add_headers(message: Message, headers: Sequence[tuple[bytes, bytes]]) -> None:
    present = {name.lower() for name, _ in message["headers"]}
    message["headers"] = [*message["headers"], *(each for each in headers if each[0] not in present)]


def make_app(
    context: Context,
    routers: Sequence[APIRouter],
    *,
    title: str = "WhatsApp Orchestrator",
    webhooks: APIRouter | None = None,
) -> FastAPI:
    """Make the service with these routers. `webhooks` describes the requests that it sends, for OpenAPI."""
    app = FastAPI(
        title=title,
        version=version("wa-orchestrator"),
        description=openapi.DESCRIPTION,
        servers=openapi.servers(context.settings.public_url),
        license_info={"name": "MIT", "identifier": "MIT"},
        webhooks=webhooks,
        generate_unique_id_function=openapi.operation_id,
        docs_url=None,
        redoc_url=None,
    )
    app.state.context = context
    docs.install(app)
    openapi.install(app)
    problems.install(app)
    app.add_middleware(Guard)
    for router in routers:
        described = problems.public_responses() if "health" in router.tags else problems.responses()
        app.include_router(router, responses=described)
    return app
