"""Redis comes back without its data: what is on disk is used again, with real workers."""

from typing import Any

import pytest

from tests.e2e.product import Product, product
from tests.waiting import until

SESSION, PHONE = "north", "972501100301"

pytestmark = [pytest.mark.slow, pytest.mark.asyncio]


async def lose_redis(running: Product) -> None:
    """Redis dies, and comes back with an empty volume."""
    redis = running.parts["redis"]
    redis.end()
    for path in (*running.home.glob("appendonlydir/*"), *running.home.glob("*.rdb")):
        path.unlink()
    redis.start()
    await until(running.redis_answers, "the empty Redis answers")


async def emptied(running: Product) -> bool:
    written: Any = await running.redis.xrange("events")
    return any(fields["type"] == "server.redis_emptied" for _, fields in written)


async def test_after_redis_lost_its_data_a_session_id_that_is_created_again_is_online_without_a_scan() -> None:
    async with product(proxies=1, TIME_SCALE="20", MONITOR_INTERVAL_MS="2000", COLD_HOURS="00:00-00:00") as running:
        await running.link(SESSION, PHONE)
        for _ in range(2):  # so that the directory has seen more than a first epoch
            before = running.worker_pids()[SESSION]
            (await running.api.post(f"/api/sessions/{SESSION}/restart")).raise_for_status()
            await until(lambda: running.worker_pids().get(SESSION, before) != before, "a new worker")  # noqa: B023
            await until(lambda: running.is_connected(SESSION), "it is connected")
        await lose_redis(running)
        await until(lambda: emptied(running), "the operator is told")
        assert (await running.api.get("/api/sessions")).json()["sessions"] == []
        made = await running.api.post("/api/sessions/provision", json={"sessionId": SESSION})
        assert made.is_success, made.text
        await until(lambda: running.is_connected(SESSION), "the session is connected, and nobody scanned a code")
        sent = {"to": "972525550001", "sessionId": SESSION, "message": "Still here."}
        message = (await running.door.post("/api/v1/send", json=sent)).raise_for_status().json()["messageId"]

        async def arrived() -> bool:
            return any(each["to"] == sent["to"] for each in await running.arrivals())

        await until(arrived, f"{message} arrives")
