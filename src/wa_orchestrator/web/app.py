"""Assembles an HTTP service: routers, errors, OpenAPI, headers."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Final

from fastapi import APIRouter, FastAPI, HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wa_orchestrator.context import Context
from wa_orchestrator.web import docs, openapi, problems, request_body
from wa_orchestrator.web.connections import client_of
from wa_orchestrator.web.keyed_route import longest_body_of
from wa_orchestrator.web.rates import rate_limited

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


#: A year. Browsers that have seen this header use TLS only.
_HSTS: Final = (b"strict-transport-security", b"max-age=31536000")


class Guard:
    """Adds security headers to every response, limits bodies, and counts requests to pages by address."""

    def __init__(self, app: ASGIApp, context: Context) -> None:
        self._app = app
        self._rates = context.rates
        self._settings = context.settings
        self._is_tls = (context.settings.public_url or "").startswith("https://")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = str(scope["path"])
        headers = API_HEADERS if path.startswith("/api") else SECURITY_HEADERS
        if self._is_tls or scope.get("scheme") == "https":
            headers = (*headers, _HSTS)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add_headers(message, headers)
            await send(message)

        app = self._app
        if wait_s := self._wait_s(scope, path):
            app = problems.answer(rate_limited(wait_s))
        await app(scope, self._limited(scope, receive), with_headers)

    def _wait_s(self, scope: Scope, path: str) -> float:
        """Count a request to a page or to a public route. The API's are counted by key, workers' by session."""
        client = scope.get("client")
        if client is None or path.startswith(("/api/", "/webhook")):
            return 0
        return self._rates.spend(f"address {client_of(client[0])}", self._settings.public_rate_per_minute)

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        """Limit the body to what the route takes, which is known when it is read. Most hold it in memory."""

        def most() -> int:
            return longest_body_of(scope.get("endpoint"), self._settings.max_body_bytes)

        # FastAPI passes on an HTTPException only.
        return request_body.limited(receive, most, HTTPException(413), request_body.declared_bytes(scope))


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
        openapi_url="/openapi.json" if context.settings.serve_docs else None,
    )
    _prepare(app, context)
    if context.settings.serve_docs:
        docs.install(app)
        openapi.install(app)
    for router in routers:
        described = problems.public_responses() if "health" in router.tags else problems.responses()
        app.include_router(router, responses=described)
    return app


def make_worker_app(
    context: Context, routers: Sequence[APIRouter], posts: Mapping[str, Callable[[Request], Awaitable[Response]]]
) -> FastAPI:
    """Make the service for workers: their routes, and no description of them.

    `posts` are handlers of frequent requests by path. They take nothing from FastAPI, which would match the path twice
    and look for dependencies: a third of the time of an event.
    """
    app = FastAPI(title="WhatsApp Orchestrator: workers", docs_url=None, redoc_url=None, openapi_url=None)
    _prepare(app, context)
    app.state.is_for_workers = True
    for path, handler in posts.items():
        app.add_route(path, handler, methods=["POST"])
    for router in routers:
        app.include_router(router)
    return app


def _prepare(app: FastAPI, context: Context) -> None:
    app.state.context = context
    problems.install(app)
    app.add_middleware(Guard, context=context)
