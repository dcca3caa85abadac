"""A Redis that may lose messages is reported at the start and on every page."""

from redis.asyncio import Redis
from structlog.testing import capture_logs

from tests.dashboard.serving import settings
from wa_orchestrator.context import make_context
from wa_orchestrator.dashboard.fleet.snapshot_reader import SnapshotReader
from wa_orchestrator.dashboard.html.renderer import Renderer
from wa_orchestrator.dashboard.pages import fleet
from wa_orchestrator.server.redis_check import check_redis
from wa_orchestrator.store.engine.durability import Weakness


async def test_a_redis_that_does_not_wait_for_the_disk_is_reported_in_the_log_and_on_the_page(redis: Redis) -> None:
    context = make_context(settings(), redis)
    renderer = Renderer(context, SnapshotReader(context))
    before = {**await redis.config_get("appendonly"), **await redis.config_get("appendfsync")}
    try:
        for name, value in {"appendonly": "yes", "appendfsync": "everysec"}.items():
            await redis.config_set(name, value)
        with capture_logs() as logs:
            for _ in range(2):
                await check_redis(context)
        view = await renderer.view_as(None, "fleet", "en")
        page = renderer.page(view, await fleet.show(renderer, view, {}))
    finally:
        for changed, was in before.items():
            await redis.config_set(str(changed), str(was))
    assert context.redis_weaknesses == (Weakness.APPENDFSYNC_NOT_ALWAYS,)
    assert [line["code"] for line in logs if line["event"] == "redis.not_durable"] == ["APPENDFSYNC_NOT_ALWAYS"]
    assert "appendfsync" in bytes(page.body).decode()
