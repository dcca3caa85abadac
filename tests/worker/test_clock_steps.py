"""The clock of a worker's machine is set: its reports are still believed, and in the order in which things happened."""

import shutil
import time
from pathlib import Path

import pytest

from tests.worker.harness import Rig
from wa_orchestrator.orchestrator.api.workers.events import WINDOW_S

HOUR_MS = 3_600_000
SETTABLE = Path(__file__).with_name("settable_clock.cjs")

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


@pytest.mark.parametrize("by_ms", [HOUR_MS, -HOUR_MS])
async def test_what_a_worker_reports_is_believed_and_in_order_although_its_clock_was_set(
    rig: Rig, tmp_path: Path, by_ms: int
) -> None:
    clock, offset = shutil.copy(SETTABLE, tmp_path), tmp_path / "offset"
    offset.write_text("0")
    session = rig.session(PING_INTERVAL_MS="300")
    await session.link(options=("--require", str(clock)))
    seen = len(session.station.events)
    offset.write_text(str(by_ms))
    await rig.world.whatsapp.fault("drop", phone=session.phone)
    lost = await session.event("DISCONNECTED", after=seen)
    back = await session.event("CONNECTED", after=session.station.events.index(lost))
    times = [event["timestamp"] for event in session.station.events]
    assert times == sorted(times)
    assert abs(back["timestamp"] - time.time() * 1000) < WINDOW_S * 1000
    await rig.server.acked(await session.say(rig.session().phone, "still here"))
