"""The gateway as a service: its routes, its own application, and its front door for the routes that must be fast."""

import gc
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header
from starlette.types import ASGIApp, Receive, Scope, Send

from wa_orchestrator.context import Context
from wa_orchestrator.gateway.acceptance import Taking
from wa_orchestrator.gateway.content_loader import Contents
from wa_orchestrator.gateway.hot_path import http_protocol
from wa_orchestrator.gateway.hot_path.redis_pipeline import Batcher
from wa_orchestrator.gateway.request_models import BatchAnswer, BatchBody, SendBody, TakenAnswer
from wa_orchestrator.gateway.retention import Retention
from wa_orchestrator.gateway.routes import messages, queues, uploads
from wa_orchestrator.gateway.routes.send import Door, RawRoute, SendDoor, application
from wa_orchestrator.gateway.routes.send_batch import BatchDoor
from wa_orchestrator.gateway.sender_pool import SenderPool
from wa_orchestrator.store import api_keys
from wa_orchestrator.web import auth, health
from wa_orchestrator.web.app import make_app
from wa_orchestrator.web.problems import responses

_REFUSALS = responses(
    BAD_JSON=400, API_KEY_MISSING=401, API_KEY_UNKNOWN=401, SCOPE_MISSING=403, NO_SUCH_SESSION=404, NO_SUCH_PHONE=404,
    IDEMPOTENCY_CONFLICT=409, NO_SENDER=409, SESSION_NOT_LINKED=409, PHONE_DIFFERS=409, BODY_TOO_LONG=413,
    FILE_TOO_LARGE=413, UNSUPPORTED_TYPE=415, VALIDATION_FAILED=422, OPTED_OUT=422, URL_REFUSED=422,
    MEDIA_UNREACHABLE=422, NO_SUCH_UPLOAD=422, RATE_LIMITED=429, DAILY_LIMIT=429, QUEUE_FULL=429,
    QUEUE_UNAVAILABLE=503,
)  # fmt: skip
#: Objects made before the collector looks for cycles. A request makes a hundred, and none of them.
_YOUNG = 20_000
_SENDER = Depends(auth.requires(api_keys.Scope.SEND))
_Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=255)]


class Front:
    """An application with doors before it. A server that is given `http_protocol` (uvicorn's `http=`) lets the doors
    answer on the connection itself, which is faster; any other one gets the same answers over ASGI.
    """

    def __init__(self, app: ASGIApp, doors: Mapping[str, Door]) -> None:
        self.http_protocol = http_protocol.protocol(doors)
        self._app = app
        self._doors = {path: application(door) for path, door in doors.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        door = self._doors.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        await (door or self._app)(scope, receive, send)


class Gateway:
    """All parts of the gateway over one context. One per process."""

    def __init__(self, context: Context, *, contents: Contents | None = None) -> None:
        self.context = context
        self.batcher = Batcher(context.scripts)
        self.view = SenderPool(self.batcher, context.settings)
        self.taking = Taking(context.settings, self.batcher, self.view)
        contents = contents or Contents(context.settings)
        self._send = SendDoor(context, self.taking, self.view, contents)
        self._batch = BatchDoor(context, self.taking, self.view, contents)
        self.retention = Retention(context.settings, context.scripts)

    def router(self) -> APIRouter:
        """Offer all routes; the application that includes them closes the gateway's connections when it ends."""

        @asynccontextmanager
        async def lifespan(_app: Any) -> AsyncIterator[None]:
            gc.collect()
            gc.freeze()  # what exists by now lives as long as the process: no full collection needs to look through it
            gc.set_threshold(_YOUNG)
            try:
                yield
            finally:
                await self.close()

        routes = APIRouter(lifespan=lifespan)
        self._describe_doors(routes)
        routes.include_router(messages.router(self.context, self.view))
        routes.include_router(queues.router(self.context, self.view))
        routes.include_router(uploads.router(self.context, self.taking))
        return routes

    def front(self, app: ASGIApp) -> "Front":
        """Put the fast routes before an application and all its middleware."""
        return Front(app, self.doors())

    def doors(self) -> dict[str, Door]:
        """The fast routes by their path."""
        return {path: door for door in (self._send, self._batch) for path in door.paths}

    async def close(self) -> None:
        """Let go of the connections."""
        await self.batcher.close()

    def _describe_doors(self, routes: APIRouter) -> None:
        """Let OpenAPI show the doors. The functions below are descriptions: `RawRoute` lets the door answer."""

        async def send_message(body: SendBody, idempotency_key: _Key = None) -> TakenAnswer:
            """Send one message."""
            raise AssertionError((body, idempotency_key))

        async def send_batch(body: BatchBody, idempotency_key: _Key = None) -> BatchAnswer:
            """Send up to 1,000 messages."""
            raise AssertionError((body, idempotency_key))

        send_message.door, send_batch.door = self._send, self._batch  # type: ignore[attr-defined]
        _show(routes, self._send.paths, send_message)
        _show(routes, self._batch.paths, send_batch)


def _show(routes: APIRouter, paths: Sequence[str], endpoint: Any) -> None:
    for number, path in enumerate(paths):
        routes.add_api_route(
            path,
            endpoint,
            methods=["POST"],
            status_code=202,
            tags=["messages"],
            responses=_REFUSALS,
            dependencies=[_SENDER],
            route_class_override=RawRoute,
            name=endpoint.__name__ if number == 0 else f"{endpoint.__name__}_alias",
        )


def router(context: Context) -> APIRouter:
    """Offer the gateway's routes as part of another application."""
    return Gateway(context).router()


def make_gateway(context: Context) -> tuple[Gateway, Front]:
    """Make the gateway as a service of its own: `wa-orchestrator gateway`."""
    gateway = Gateway(context)
    app = make_app(context, [gateway.router(), health.router(context)], title="WhatsApp Orchestrator: gateway")
    return gateway, gateway.front(app)
