"""Routes `/health`, `/ready` and `/metrics`."""

import asyncio
from importlib.metadata import version
from typing import Literal

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import Field

from wa_orchestrator.context import Context
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.store import readiness
from wa_orchestrator.store.errors import RedisError
from wa_orchestrator.web.models import ResponseModel

_ANSWER_S = 2.0


class HealthResponse(ResponseModel):
    """The process runs."""

    status: Literal["ok"] = "ok"
    version: str


class ReadyResponse(ResponseModel):
    """The service can work: Redis responds. The rest tells which other parts of the installation do."""

    status: Literal["ready", "degraded"] = Field(
        description="`degraded`: messages are accepted, but no leader or no dispatcher works, so they wait."
    )
    leader: bool = Field(description="Some orchestrator starts, stops and watches workers.")
    dispatcher: bool = Field(description="Some dispatcher routes and releases messages.")
    workers: int = Field(description="So many workers have their session connected.")


def router(context: Context) -> APIRouter:
    """Return the routes. None of them needs a key, and none shows a secret or a phone."""
    routes = APIRouter(tags=["health"])

    @routes.get("/health")
    async def get_health() -> HealthResponse:
        """Check that the process runs."""
        return HealthResponse(version=version("wa-orchestrator"))

    @routes.get("/ready")
    async def get_readiness() -> ReadyResponse:
        """Check that the service can work, and which other parts do. Only Redis makes it 503: the rest cures itself."""
        try:
            async with asyncio.timeout(_ANSWER_S):
                found = await readiness.read(context.scripts)
        except (RedisError, OSError, TimeoutError) as error:
            raise Unavailable("STORE_UNAVAILABLE", "Redis does not respond. Try again.", retryAfterS=2) from error
        works = found.leader and found.dispatcher
        return ReadyResponse.of(found, status="ready" if works else "degraded")

    # Monitors often ask with HEAD, which FastAPI does not add to a GET route.
    for path, check in (("/health", get_health), ("/ready", get_readiness)):
        routes.add_api_route(path, check, methods=["HEAD"], include_in_schema=False)

    async def get_metrics() -> Response:
        """Get metrics in the format of Prometheus."""
        for refresh in context.refreshers:
            await refresh()
        return Response(generate_latest(context.registry), media_type=CONTENT_TYPE_LATEST)

    if context.settings.serve_metrics:
        routes.get("/metrics", response_class=PlainTextResponse)(get_metrics)
    return routes
