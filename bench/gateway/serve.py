"""Serves the gateway alone: one process, uvicorn with uvloop and httptools."""

import os
from pathlib import Path

import uvicorn

from wa_orchestrator.context import opened
from wa_orchestrator.gateway.app import Gateway
from wa_orchestrator.settings import Settings


async def serve() -> None:
    """Serve until killed. The limits are raised so that the load is accepted and not refused."""
    settings = Settings(
        api_key=os.environ["API_KEY"],
        data_dir=Path(os.environ["DATA_DIR"]),
        timezone="UTC",
        rate_limit_per_minute=60_000_000,
        hot_per_day=1_000_000,
        queue_limit=1_000_000,
        log_level="error",
        gateway_hot_path=os.environ.get("HOT_PATH") != "0",
    )
    async with opened(settings, f"unix://{os.environ['REDIS_SOCKET']}") as context:
        gateway = Gateway(context)
        http = "httptools" if os.environ.get("OWN_HTTP") == "0" else gateway.http
        config = uvicorn.Config(
            gateway.app(), host="127.0.0.1", port=int(os.environ["PORT"]), log_level="warning", access_log=False,
            loop="uvloop", http=http, lifespan="on",
        )  # fmt: skip
        await uvicorn.Server(config).serve()


if __name__ == "__main__":
    import uvloop

    uvloop.run(serve())
