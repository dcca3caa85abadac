"""A furnished stage that a browser can visit, and a thread that changes it meanwhile."""

import contextlib
from collections.abc import Iterator
from typing import Any

from redis.asyncio import Redis

from tests.dashboard import stage
from tests.dashboard.serving import Routers, Thread, in_thread
from wa_orchestrator.context import Context
from wa_orchestrator.gateway import app as gateway
from wa_orchestrator.orchestrator.api import admin, holds, limits, optouts, webhooks
from wa_orchestrator.store.engine.scripts import Scripts


class Scene:
    """The served stage, with a thread of its own for Redis."""

    def __init__(self, address: str, thread: Thread, redis_url: str) -> None:
        self.address, self.thread, self.redis_url = address, thread, redis_url

    def do(self, work: Any) -> Any:
        """Do something with the stage's verbs: `work(stage)` gives what to await."""

        async def doing() -> Any:
            redis = Redis.from_url(self.redis_url, decode_responses=True)
            try:
                return await work(stage.Stage(Scripts(redis)))
            finally:
                await redis.aclose()

        return self.thread.do(doing())


async def _fresh(on: stage.Stage) -> None:
    await on.redis.flushall()
    await stage.furnish(on.scripts)


def api(context: Context) -> list[Any]:
    """Everything that a button can ask for where no worker runs."""
    parts = (admin, holds, limits, optouts, webhooks, gateway)
    return [part.router(context) for part in parts]


@contextlib.contextmanager
def staged(redis_url: str, routers: Routers = api, **changes: Any) -> Iterator[Scene]:
    """Serve a fresh stage."""
    with in_thread(redis_url, routers=routers, **changes) as (address, thread):
        made = Scene(address, thread, redis_url)
        made.do(_fresh)
        yield made
