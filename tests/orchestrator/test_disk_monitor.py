"""A disk that runs full is an alert before it is full."""

import shutil
from collections import namedtuple
from typing import Any

import pytest

from tests.orchestrator.fakes import part
from wa_orchestrator.orchestrator.disk_monitor import DiskMonitor, is_low
from wa_orchestrator.orchestrator.notifications.alert_texts import alert_of, text_of
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.store import keys

GIB = 1024**3
Usage = namedtuple("Usage", "total used free")


@pytest.mark.parametrize(
    ("total", "free", "low"),
    [(10 * GIB, GIB, False), (10 * GIB, GIB // 4, True), (1000 * GIB, 3 * GIB, False), (1000 * GIB, GIB, True)],
)
def test_a_disk_is_low_by_its_share_and_a_large_one_by_its_bytes(total: int, free: int, low: bool) -> None:
    assert is_low(total, free) is low


async def test_a_disk_that_runs_full_is_one_alert_until_it_had_room_again(
    control: Orchestrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for free in (GIB, GIB // 4, GIB // 5, GIB, GIB // 4):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: Usage(10 * GIB, 10 * GIB - free, free))
        await part(control, DiskMonitor).step()
    written: Any = await control.context.redis.xrange(keys.EVENTS)
    told = [fields for _, fields in written if fields["type"] == "server.disk_low"]
    assert len(told) == 2 * len({control.context.settings.data_dir, control.context.settings.sessions_dir})
    alert = alert_of(told[0])
    assert alert is not None
    assert "nearly full" in text_of([alert], "en")
