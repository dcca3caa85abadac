"""A part of the product in a process of its own, for benchmarks that compare two checkouts in one run.

`python -m bench._served workers|main|gateway|whole` serves on a free port and prints it. It uses nothing that is newer
than the oldest checkout it is compared with, so that both are started by the same file. `whole` runs every loop of the
product, with workers that are only said to run; the port for them is in the file `WORKERS_PORT`.
"""

import asyncio
import os
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from tests.orchestrator import fakes

from wa_orchestrator.context import Context, opened
from wa_orchestrator.dispatcher.dispatcher import Dispatcher
from wa_orchestrator.gateway.app import Gateway
from wa_orchestrator.logs import configure
from wa_orchestrator.orchestrator import service
from wa_orchestrator.server import bootstrap
from wa_orchestrator.server.http import listen, serving
from wa_orchestrator.settings import Settings
from wa_orchestrator.web.connections import Limits

API_KEY = "wao_bench-Zk3vQ9pLx2Rw8sTn"
SECRET = "whsec_bm90LWEtcmVhbC1zZWNyZXQtYnV0LWxvbmc="
PASSWORD = "violet-harbour-91-otters"
WORKERS_PORT = "workers.port"


def settings(home: Path) -> Settings:
    """Settings with no limit in the way of the load."""
    return Settings(
        api_key=SecretStr(API_KEY),
        webhook_secret=SecretStr(SECRET),
        dashboard_password=SecretStr(PASSWORD),
        data_dir=home,
        timezone="UTC",
        rate_limit_per_minute=60_000_000,
        worker_rate_per_minute=60_000_000,
        public_rate_per_minute=60_000_000,
        hot_per_day=1_000_000,
        queue_limit=1_000_000,
    )


def _parts(context: Context, kind: str) -> tuple[Any, list[Any], dict[str, Any]]:
    """Return an application, the loops that it needs, and the options of its listener."""
    gateway = Gateway(context)
    if kind == "gateway":
        return gateway.app(), [], {"http": gateway.http}
    apps = bootstrap.control_apps(service.assemble(context, _runner()), [gateway.router()])
    if kind == "workers":
        return apps.workers, [], {}
    if kind == "whole":
        loops = getattr(gateway, "loops", ())  # older ones have none
        return apps, [*apps.loops, Dispatcher(context), *loops], {"http": gateway.http}
    return apps.main, [loop for loop in apps.loops if type(loop).__name__ == "Dashboard"], {}


def _runner() -> fakes.FakeRunner:
    """Return a runner that finds a worker of the first epoch for each session named in `SESSIONS`."""
    runner, now_ms = fakes.FakeRunner(), round(time.time() * 1000)
    found = vars(fakes)["FoundWorker"]  # its module has another name in older checkouts
    for name in os.environ.get("SESSIONS", "").split():
        runner.running[f"fake/0/{name}"] = found(f"fake/0/{name}", name, 1, now_ms)
    return runner


async def serve(kind: str) -> None:
    """Serve until the process is killed, with the log that the product writes."""
    configure("info", sys.stdout)
    home = Path(os.environ["DATA_DIR"])
    async with opened(settings(home), os.environ["REDIS_ADDRESS"]) as context, AsyncExitStack() as stack:
        app, loops, options = _parts(context, kind)
        if kind == "whole":
            apps, app = app, app.main
            workers = listen("127.0.0.1", 0, "WORKER_PORT")
            await stack.enter_async_context(serving(apps.workers, workers, Limits()))
            (home / WORKERS_PORT).write_text(str(workers.getsockname()[1]), encoding="ascii")
        running = [asyncio.ensure_future(loop.run()) for loop in loops]
        bound = listen("127.0.0.1", 0, "ORCH_PORT")
        async with serving(app, bound, Limits(), **options):
            sys.stdout.write(f"{bound.getsockname()[1]}\n")
            sys.stdout.flush()
            await asyncio.gather(asyncio.Event().wait(), *running)


if __name__ == "__main__":
    import uvloop

    uvloop.run(serve(sys.argv[1]))
