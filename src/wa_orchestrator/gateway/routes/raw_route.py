"""Routes that parse their request themselves, while FastAPI describes them in OpenAPI."""

from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Depends, Header
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from wa_orchestrator.domain.access.permissions import RouteSpan, Scope
from wa_orchestrator.gateway import replies
from wa_orchestrator.store.errors import RedisError
from wa_orchestrator.web.auth import requires
from wa_orchestrator.web.problems import responses

Handler = Callable[[Request], Awaitable[Response]]
IdempotencyKey = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=255)]
_ERRORS = responses(
    BAD_JSON=400, API_KEY_MISSING=401, API_KEY_UNKNOWN=401, SCOPE_MISSING=403, NO_SUCH_SESSION=404, NO_SUCH_PHONE=404,
    IDEMPOTENCY_CONFLICT=409, NO_SENDER=409, HELD=409, SESSION_NOT_LINKED=409, PHONE_DIFFERS=409, BODY_TOO_LONG=413,
    FILE_TOO_LARGE=413, UNSUPPORTED_TYPE=415, VALIDATION_FAILED=422, OPTED_OUT=422, URL_REFUSED=422,
    MEDIA_UNREACHABLE=422, CONTENT_ENCODED=422, NO_SUCH_UPLOAD=422, UNKNOWN_USERNAME=422,
    USERNAME_KEY_NEEDED=422, RATE_LIMITED=429, ACTS_LIMITED=429, DAILY_LIMIT=429, QUEUE_FULL=429,
    QUEUE_UNAVAILABLE=503, SESSION_NOT_CONNECTED=503, ACT_UNANSWERED=503, UPLOAD_QUOTA=507, DISK_FULL=507,
)  # fmt: skip

log = structlog.get_logger(__name__)


def router(paths: Sequence[str], handler: Handler, description: Any) -> APIRouter:
    """Return routes that `handler` answers. The signature of `description` is for OpenAPI only, it is never called."""

    class RawRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            async def handle(request: Request) -> Response:
                return await handler(request)

            return handle

    routes = APIRouter(tags=["messages"], route_class=RawRoute)
    for number, path in enumerate(paths):
        routes.add_api_route(
            path,
            description,
            methods=["POST"],
            status_code=202,
            responses=_ERRORS,
            dependencies=[Depends(requires(Scope.SEND, RouteSpan.SESSIONS))],
            name=description.__name__ if number == 0 else f"{description.__name__}_alias",
        )
    return routes


@contextmanager
def outages_as_unavailable() -> Iterator[None]:
    """Raise the error of a send during an outage of Redis, whichever store function met it."""
    try:
        yield
    except (RedisError, OSError, TimeoutError) as error:
        log.warning("request.redis_unavailable", error=type(error).__name__)
        raise replies.unavailable() from error
