"""The gateway as a service: its parts, its routes, and its own application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI

from wa_orchestrator.context import Context
from wa_orchestrator.gateway.acceptance import Acceptor
from wa_orchestrator.gateway.call_replies import CallReplies
from wa_orchestrator.gateway.campaigns.feeder import CampaignFeeder
from wa_orchestrator.gateway.content_loader import ContentLoader
from wa_orchestrator.gateway.hot_path import HotPath
from wa_orchestrator.gateway.redis_access import PlainRedis, RedisAccess
from wa_orchestrator.gateway.retention import Retention
from wa_orchestrator.gateway.routes import send, send_batch
from wa_orchestrator.gateway.routes.campaigns import CampaignRoutes
from wa_orchestrator.gateway.routes.messages import MessageRoutes
from wa_orchestrator.gateway.routes.queues import QueueRoutes
from wa_orchestrator.gateway.routes.send import SendHandler
from wa_orchestrator.gateway.routes.send_batch import BatchHandler
from wa_orchestrator.gateway.routes.statistics import StatisticsRoutes
from wa_orchestrator.gateway.routes.uploads import UploadRoutes
from wa_orchestrator.gateway.senders.sender_pool import SenderPool
from wa_orchestrator.loop import Runnable
from wa_orchestrator.web import health
from wa_orchestrator.web.app import make_app
from wa_orchestrator.web.http_protocol import GuardedProtocol


class Gateway:
    """All parts of the gateway over one context. One per process; any number of applications may serve its routes."""

    def __init__(self, context: Context, *, contents: ContentLoader | None = None) -> None:
        settings = context.settings
        hot_path = HotPath(context) if settings.gateway_hot_path else None
        contents = contents or ContentLoader(settings)
        self.context = context
        self.redis: RedisAccess = hot_path.redis if hot_path else PlainRedis(context.scripts)
        self.pool = SenderPool(self.redis, settings)
        self.retention = Retention(settings, context.scripts)
        self._acceptor = Acceptor(settings, self.redis, self.pool)
        self._send = SendHandler(context, self._acceptor, self.pool, contents)
        self._batch = BatchHandler(context, self._acceptor, self.pool, contents)
        self.campaigns = CampaignFeeder(context, self._acceptor, self.pool)
        self.call_replies = CallReplies(context, self._acceptor)
        #: What runs beside the routes.
        self.loops: list[Runnable] = [self.retention, self.campaigns]
        if settings.reject_calls and settings.call_reply:
            self.loops.append(self.call_replies)
        self._hot_path = hot_path
        #: The HTTP protocol of a server that serves the routes, for uvicorn's `http`.
        self.http: type[GuardedProtocol] = GuardedProtocol
        if hot_path is not None:
            self.http = hot_path.http_protocol(self._send, self.pool, self._acceptor, contents)

    def router(self) -> APIRouter:
        """Return all routes."""
        routes = APIRouter(lifespan=self._lifespan)
        routes.include_router(send.router(self._send))
        routes.include_router(send_batch.router(self._batch))
        routes.include_router(MessageRoutes(self.context, self.pool, self._acceptor))
        routes.include_router(CampaignRoutes(self.context, self.pool))
        routes.include_router(QueueRoutes(self.context, self.pool))
        routes.include_router(StatisticsRoutes(self.context, self.pool))
        routes.include_router(UploadRoutes(self.context, self._acceptor))
        return routes

    def app(self) -> FastAPI:
        """Return the application that serves the gateway alone."""
        parts = [self.router(), health.router(self.context)]
        return make_app(self.context, parts, title="WhatsApp Orchestrator: gateway")

    @asynccontextmanager
    async def _lifespan(self, _app: Any) -> AsyncIterator[None]:
        if self._hot_path is not None:
            self._hot_path.tune_gc()
        yield
