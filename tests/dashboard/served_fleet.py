"""Serves a sample fleet to a browser; a thread can change it meanwhile."""

import contextlib
from collections.abc import Iterator
from typing import Any

from tests.dashboard import sample_fleet
from tests.dashboard.serving import Routers, Thread, in_thread
from wa_orchestrator.context import Context
from wa_orchestrator.gateway.app import Gateway
from wa_orchestrator.orchestrator.api.access.keys import KeyRoutes
from wa_orchestrator.orchestrator.api.access.people import PeopleRoutes
from wa_orchestrator.orchestrator.api.admin import AdminRoutes
from wa_orchestrator.orchestrator.api.conversations.quick_replies import QuickReplyRoutes
from wa_orchestrator.orchestrator.api.conversations.routes import ConversationRoutes
from wa_orchestrator.orchestrator.api.holds import HoldRoutes
from wa_orchestrator.orchestrator.api.optouts import OptOutRoutes
from wa_orchestrator.orchestrator.api.sessions.limits import LimitRoutes
from wa_orchestrator.orchestrator.api.tag_limits import TagLimitRoutes
from wa_orchestrator.orchestrator.api.webhooks import WebhookRoutes
from wa_orchestrator.store.engine.line_client import LineClient
from wa_orchestrator.store.engine.scripts import Scripts


class ServedFleet:
    """The address of the served fleet, and a thread for Redis."""

    def __init__(self, address: str, thread: Thread, redis_url: str) -> None:
        self.address, self.thread, self.redis_url = address, thread, redis_url

    def do(self, work: Any) -> Any:
        """Await `work(builder)` in the thread."""

        async def doing() -> Any:
            redis = LineClient.from_url(self.redis_url, decode_responses=True)
            try:
                return await work(sample_fleet.FleetBuilder(Scripts(redis)))
            finally:
                await redis.aclose()

        return self.thread.do(doing())


async def _fresh(on: sample_fleet.FleetBuilder) -> None:
    await on.redis.flushall()
    await sample_fleet.fill(on.scripts)


def api(context: Context) -> list[Any]:
    """Return the routes that actions need without workers."""
    parts: tuple[Any, ...] = (
        AdminRoutes,
        KeyRoutes,
        PeopleRoutes,
        HoldRoutes,
        LimitRoutes,
        TagLimitRoutes,
        OptOutRoutes,
        WebhookRoutes,
    )
    parts += (ConversationRoutes, QuickReplyRoutes)
    return [*(part(context) for part in parts), Gateway(context).router()]


@contextlib.contextmanager
def serve_fleet(redis_url: str, routers: Routers = api, **changes: Any) -> Iterator[ServedFleet]:
    """Serve a new sample fleet."""
    with in_thread(redis_url, routers=routers, **changes) as (address, thread):
        made = ServedFleet(address, thread, redis_url)
        made.do(_fresh)
        yield made
