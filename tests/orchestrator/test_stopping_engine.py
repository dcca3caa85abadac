"""An engine is stopped in an orderly way: it ends its workers first, answers for a while, and goes away last."""

from collections.abc import Sequence

import httpx
import pytest

from tests.orchestrator.fakes import FakeRunner, Teller, drive, part
from tests.orchestrator.session_steps import PHONE, linked, now
from wa_orchestrator.domain.sessions.reconciliation import FoundWorker
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.workers.reconciler import Reconciler
from wa_orchestrator.orchestrator.workers.restart_limit import MAX_RESTARTS
from wa_orchestrator.orchestrator.workers.watchdog import ExitWatcher
from wa_orchestrator.runner.contract import Exited, Running
from wa_orchestrator.store import keys


class Engine(FakeRunner):
    """An engine that answers nothing at all while it is away."""

    async def poll(self, handle: str) -> Running | Exited:
        self._responds()
        return await super().poll(handle)

    async def survey(self) -> Sequence[FoundWorker]:
        self._responds()
        return await super().survey()

    def _responds(self) -> None:
        if self.is_away:
            raise Unavailable("ENGINE_AWAY", "the engine does not respond")


@pytest.fixture
def runner() -> Engine:
    return Engine()


async def looks(control: Orchestrator) -> None:
    """Everybody who watches workers looks once, and what follows from it is done."""
    await control.lease.step()
    await part(control, ExitWatcher).step()
    try:
        await part(control, Reconciler).step()
        await drive(control)
    except Unavailable:
        return


async def is_restarted(control: Orchestrator, engine: Engine, *, accepts: bool) -> None:
    """Restart the engine. While it stops it accepts new workers, which end with it, or refuses them."""
    engine.running.clear()
    engine.refuses = not accepts
    await looks(control)
    engine.is_away = True
    await looks(control)
    engine.running.clear()
    engine.is_away = engine.refuses = False
    for _ in range(2):
        await looks(control)


@pytest.mark.parametrize("accepts", [True, False], ids=["accepts_workers", "refuses_workers"])
async def test_an_engine_that_is_restarted_again_and_again_uses_up_no_restarts_of_a_session(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: Engine, accepts: bool
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    for _ in range(2 * MAX_RESTARTS):
        await is_restarted(control, runner, accepts=accepts)
        assert list(runner.epochs()) == ["s1"], (await now(control.context, "s1")).reason
    assert not await control.context.redis.exists(keys.restarts("s1"))


async def test_a_worker_that_ends_after_the_engine_came_back_is_counted_again(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: Engine
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    runner.is_away = True
    await looks(control)
    runner.is_away = False
    for _ in range(MAX_RESTARTS + 1):
        await looks(control)
        runner.die("s1")
        await looks(control)
    assert (await now(control.context, "s1")).reason == "TOO_MANY_RESTARTS"


async def test_what_was_counted_long_before_an_absence_stays_counted(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: Engine
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    long_ago = await control.context.scripts.now_ms() - 5 * 60_000
    await control.context.redis.zadd(keys.restarts("s1"), {str(long_ago): long_ago})
    runner.is_away = True
    await looks(control)
    assert await control.context.redis.zcard(keys.restarts("s1")) == 1
