"""Serves an app on loopback from a thread of its own, so that a browser can come."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import uvicorn
from pydantic import SecretStr

from tests.processes import free_port
from tests.waiting import PATIENCE_S, until
from wa_orchestrator.context import Context, make_context
from wa_orchestrator.dashboard.app import Dashboard, install
from wa_orchestrator.settings import Settings
from wa_orchestrator.store.engine.line_client import LineClient
from wa_orchestrator.web.app import make_app

PASSWORD = "violet-harbour-91-otters"
VIEWER_PASSWORD = "amber-canyon-27-lanterns"
API_KEY = "wao_tEsT0Nly7Qp2Lk9Xv4Bn6Mz1"


def settings(port: int = 0, **changes: Any) -> Settings:
    """Settings of a small installation."""
    given: dict[str, Any] = {
        "api_key": SecretStr(API_KEY),
        "webhook_secret": SecretStr("whsec_c3RhZ2Utb25seS1ub3QtcmVhbC0xMjM0NTY="),
        "dashboard_password": SecretStr(PASSWORD),
        "viewer_password": SecretStr(VIEWER_PASSWORD),
        "orch_port": port,
        "gateway_port": 0,
        "timezone": "UTC",
    }
    return Settings(**given | changes)


Routers = Callable[[Context], list[Any]]


@contextlib.asynccontextmanager
async def serving(
    redis_url: str, chosen: Settings, routers: Routers, simulator: dict[str, Any] | None
) -> AsyncIterator[tuple[str, Dashboard]]:
    """Serve the dashboard within this loop."""
    redis = LineClient.from_url(redis_url, decode_responses=True)
    context = make_context(chosen, redis)
    context.simulator = simulator
    app = make_app(context, routers(context))
    dashboard = install(app, context)
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=chosen.orch_port,
        log_level="warning",
        lifespan="on",
        timeout_graceful_shutdown=1,
        timeout_keep_alive=75,  # as the product has it: a browser must not meet connections that end while it writes
    )
    server = uvicorn.Server(config)
    loops = asyncio.create_task(dashboard.run())
    served = asyncio.create_task(server.serve())
    try:
        await until(lambda: server.started or served.done(), "the dashboard listens")
        if served.done():
            served.result()
        yield f"http://127.0.0.1:{chosen.orch_port}", dashboard
    finally:
        server.should_exit = True
        loops.cancel()
        await asyncio.gather(served, loops, return_exceptions=True)
        await redis.aclose()


class Thread:
    """A loop in a thread: a blocking test can ask it to do things."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def do(self, work: Awaitable[Any], timeout: float = PATIENCE_S) -> Any:
        """Do something there and wait for it."""

        async def doing() -> Any:
            return await work

        return asyncio.run_coroutine_threadsafe(doing(), self.loop).result(timeout)

    def stop(self) -> None:
        """End the thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()


@contextlib.contextmanager
def in_thread(
    redis_url: str, *, routers: Routers = lambda _: [], simulator: dict[str, Any] | None = None, **changes: Any
) -> Iterator[tuple[str, Thread]]:
    """Serve the dashboard from another thread; gives its address and the thread."""
    thread = Thread()
    chosen = settings(free_port(), **changes)
    context = serving(redis_url, chosen, routers, simulator)
    try:
        address, _ = thread.do(context.__aenter__())
        yield address, thread
    finally:
        thread.do(context.__aexit__(None, None, None))
        thread.stop()
