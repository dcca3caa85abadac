"""Whether the service lives, whether it can work, and its figures."""

import asyncio
from importlib.metadata import version

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from redis.exceptions import RedisError

from wa_orchestrator.context import Context
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.web.problems import responses

_ANSWER_S = 2.0


def router(context: Context) -> APIRouter:
    """Offer `/health`, `/ready` and `/metrics`. None of them needs a key, and none tells a secret or a phone."""
    routes = APIRouter(tags=["health"])

    @routes.get("/health", summary="The process lives")
    async def health() -> dict[str, str]:
        return {"status": "ok", "version": version("wa-orchestrator")}

    @routes.get("/ready", summary="It can work: Redis answers", responses=responses(STORE_UNAVAILABLE=503))
    async def ready() -> dict[str, str]:
        try:
            async with asyncio.timeout(_ANSWER_S):
                await context.redis.ping()
        except (RedisError, OSError, TimeoutError) as error:
            raise Unavailable("STORE_UNAVAILABLE", "Redis does not answer just now.", retryAfterS=2) from error
        return {"status": "ready"}

    @routes.get("/metrics", summary="Figures for Prometheus", response_class=Response)
    async def metrics() -> Response:
        for refresh in context.refreshers:
            await refresh()
        return Response(generate_latest(context.registry), media_type=CONTENT_TYPE_LATEST)

    return routes
