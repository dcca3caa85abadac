"""The gateway's look at the fleet: what could not be found out is asked for again."""

from pathlib import Path
from typing import Any

import pytest

from tests.gateway.conftest import Gate, make_settings
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.gateway.hot_path.redis_pipeline import Batcher, unavailable
from wa_orchestrator.gateway.sender_pool import SenderPool


async def test_etas_that_redis_refused_are_asked_for_again_by_the_next_one(
    gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await gate.add_session()
    batcher = Batcher(gate.scripts)
    view = SenderPool(batcher, make_settings(tmp_path))
    fleet = await view.current()

    async def refuse(*_command: Any) -> Any:
        raise unavailable()

    with monkeypatch.context() as outage:
        outage.setattr(batcher, "call", refuse)
        with pytest.raises(Unavailable):
            await view.forecast(fleet, fleet.senders["w1"])
    assert (await view.forecast(fleet, fleet.senders["w1"])).eta(0).at_ms is not None
    await batcher.close()
