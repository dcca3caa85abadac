"""The gateway's look at the snapshot: what could not be found out is asked for again."""

from pathlib import Path
from typing import Any

import pytest

from tests.gateway.conftest import Gate, make_settings
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.gateway.redis_access import PlainRedis
from wa_orchestrator.gateway.replies import unavailable
from wa_orchestrator.gateway.senders.sender_pool import SenderPool


async def test_etas_that_redis_refused_are_asked_for_again_by_the_next_one(
    gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await gate.add_session()
    redis = PlainRedis(gate.scripts)
    pool = SenderPool(redis, make_settings(tmp_path))
    snapshot = await pool.current()

    async def refuse(*_command: Any) -> Any:
        raise unavailable()

    with monkeypatch.context() as outage:
        outage.setattr(redis, "call", refuse)
        with pytest.raises(Unavailable):
            await pool.forecast(snapshot, snapshot.senders["w1"])
    assert (await pool.forecast(snapshot, snapshot.senders["w1"])).eta(0).at_ms is not None
