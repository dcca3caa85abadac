"""A Redis that runs full is an alert before it is full."""

from typing import Any

import pytest

from tests.orchestrator.fakes import part
from wa_orchestrator.orchestrator.notifications.alert_texts import alert_of, text_of
from wa_orchestrator.orchestrator.redis_memory_monitor import RedisMemoryMonitor
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine import durability


@pytest.mark.parametrize(("used", "most", "low"), [(69, 100, False), (70, 100, True), (10**12, 0, False)])
def test_memory_is_low_at_seventy_percent_of_a_limit(used: int, most: int, low: bool) -> None:
    assert durability.is_memory_low(used, most) is low


async def test_a_redis_that_runs_full_is_one_alert_until_it_had_room_again(
    control: Orchestrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for used in (10, 71, 90, 10, 71):

        async def memory(_: object, used: int = used) -> tuple[int, int]:
            return used, 100

        monkeypatch.setattr(durability, "memory_in_use", memory)
        await part(control, RedisMemoryMonitor).step()
    written: Any = await control.context.redis.xrange(keys.EVENTS)
    told = [fields for _, fields in written if fields["type"] == "server.redis_memory_low"]
    assert len(told) == 2
    alert = alert_of(told[0])
    assert alert is not None
    assert "memory" in text_of([alert], "en")
