"""A part of the product in a process of its own, for benchmarks that compare two checkouts in one run.

`python -m bench._served workers|main|gateway` serves on a free port and prints it. It uses nothing that is newer than
the oldest checkout it is compared with, so that both are started by the same file.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from tests.orchestrator.fakes import FakeRunner

from wa_orchestrator.context import Context, opened
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
    apps = bootstrap.control_apps(service.assemble(context, FakeRunner()), [gateway.router()])
    if kind == "workers":
        return apps.workers, [], {}
    return apps.main, [loop for loop in apps.loops if type(loop).__name__ == "Dashboard"], {}


async def serve(kind: str) -> None:
    """Serve until the process is killed, with the log that the product writes."""
    configure("info", sys.stdout)
    async with opened(settings(Path(os.environ["DATA_DIR"])), os.environ["REDIS_ADDRESS"]) as context:
        app, loops, options = _parts(context, kind)
        running = [asyncio.ensure_future(loop.run()) for loop in loops]
        bound = listen("127.0.0.1", 0, "ORCH_PORT")
        async with serving(app, bound, Limits(), **options):
            sys.stdout.write(f"{bound.getsockname()[1]}\n")
            sys.stdout.flush()
            await asyncio.gather(asyncio.Event().wait(), *running)


if __name__ == "__main__":
    import uvloop

    uvloop.run(serve(sys.argv[1]))
