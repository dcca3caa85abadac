"""Workers on several machines: one that is lost may still speak, so another starts only after its fence has fallen."""

import asyncio
import time

import httpx
import pytest

from tests.orchestrator.fakes import FakeRunner, Teller, drive, part
from tests.orchestrator.session_steps import OTHER, PHONE, linked, now
from tests.runner.faulty_runner import FaultyRunner, RunnerFault
from tests.waiting import until
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.workers.reconciler import Reconciler
from wa_orchestrator.orchestrator.workers.restart_limit import MAX_RESTARTS
from wa_orchestrator.orchestrator.workers.watchdog import ExitWatcher
from wa_orchestrator.runner.contract import LostAtStart
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import keys

PING_MS, FENCE_MS, LONG_ENOUGH_MS = 2_500, 10_000, 10_700


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"runner": "swarm", "credentials": "server"})


@pytest.fixture
def unruly(control: Orchestrator, runner: FakeRunner) -> FaultyRunner:
    """The control plane's runner, which can be told to break its promises."""
    made = FaultyRunner(runner)
    control.pool.runner = made
    return made


def know_the_clock(control: Orchestrator, at: int, *, for_ms: int = 60_000, stepped_ms: int = 0) -> None:
    """Let the leader have followed Redis' clock for so long, which was set forward just now."""
    own_s = time.monotonic()
    control.lease.clock.clear()
    for ago_ms in range(for_ms, 0, -20):
        control.lease.clock.note(at - stepped_ms - ago_ms, own_s - ago_ms / 1000)
    control.lease.clock.note(at, own_s)


async def pass_ms(control: Orchestrator, ms: int) -> None:
    """Let what was recorded of s1's lost worker be so much older."""
    know_the_clock(control, await control.context.scripts.now_ms())
    session = await now(control.context, "s1")
    for name in ("last_ping_at", "worker_lost_at"):
        if at := getattr(session, name):
            await control.context.redis.hset(keys.session("s1"), name, str(at - ms))


async def lose_the_node(
    control: Orchestrator, unruly: FaultyRunner, finder: type[ExitWatcher | Reconciler] = ExitWatcher
) -> None:
    """Let the runner report all workers as lost, for one step of a loop that finds it out."""
    unruly.faults.add(RunnerFault.NODE_LOST)
    await part(control, finder).step()
    unruly.faults.clear()


async def test_a_worker_on_another_machine_is_told_its_fence_and_pings_within_it(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    environment = runner.started[-1].environment
    assert (environment["FENCE_MS"], environment["PING_INTERVAL_MS"]) == (str(FENCE_MS), str(PING_MS))


@pytest.mark.parametrize("finder", [ExitWatcher, Reconciler])
async def test_a_lost_worker_is_replaced_only_after_its_fence(
    control: Orchestrator,
    api: httpx.AsyncClient,
    teller: Teller,
    runner: FakeRunner,
    unruly: FaultyRunner,
    finder: type[ExitWatcher | Reconciler],
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    before = await now(control.context, "s1")
    if finder is Reconciler:
        control.pool.workers.clear()  # a new leader, who has adopted nobody
    await lose_the_node(control, unruly, finder)
    lost = await now(control.context, "s1")
    assert lost.epoch > before.epoch
    assert lost.worker_lost_at
    assert not await control.pool.start("s1")
    await pass_ms(control, FENCE_MS)
    assert not await control.pool.start("s1")
    assert len(runner.started) == 1
    await pass_ms(control, LONG_ENOUGH_MS - FENCE_MS)
    await drive(control)
    assert len(runner.started) == 2
    assert (await now(control.context, "s1")).worker_lost_at == 0


async def test_a_worker_whose_node_is_lost_while_it_starts_is_replaced_only_after_its_fence(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner, unruly: FaultyRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await api.post("/api/sessions/s1/restart")
    unruly.faults.add(RunnerFault.START_LOST)
    with pytest.raises(LostAtStart):
        await drive(control)
    unruly.faults.clear()
    lost = await now(control.context, "s1")
    assert lost.epoch > runner.started[-1].epoch
    # It has pinged before, so it may be connected.
    at = await control.context.scripts.now_ms()
    await control.context.redis.hset(keys.session("s1"), "last_ping_at", at)
    know_the_clock(control, at)
    assert not await control.pool.start("s1")
    before = len(runner.started)
    await pass_ms(control, LONG_ENOUGH_MS)
    await drive(control)
    assert len(runner.started) == before + 1


async def test_nodes_that_are_lost_again_and_again_are_no_failure_of_a_session(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner, unruly: FaultyRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    for _ in range(MAX_RESTARTS + 1):
        unruly.faults.add(RunnerFault.NODE_LOST)
        await part(control, ExitWatcher).step()
        unruly.faults.clear()
        assert (await now(control.context, "s1")).status == "disconnected"
        await pass_ms(control, LONG_ENOUGH_MS)
        await drive(control)
    assert list(runner.epochs()) == ["s1"]


async def test_a_worker_that_has_ended_is_replaced_at_once(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    runner.running.clear()
    await part(control, ExitWatcher).step()
    await drive(control)
    assert len(runner.started) == 2


async def test_a_clock_that_is_set_back_delays_nobody_for_longer_than_a_fence(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner, unruly: FaultyRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await lose_the_node(control, unruly)
    await pass_ms(control, -3_600_000)  # recorded an hour from now
    assert not await control.pool.start("s1")
    await pass_ms(control, LONG_ENOUGH_MS)
    await drive(control)
    assert len(runner.started) == 2


async def test_a_clock_that_is_set_forward_shortens_no_fence(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner, unruly: FaultyRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await lose_the_node(control, unruly)
    await pass_ms(control, LONG_ENOUGH_MS)  # by Redis' clock; by our own, a second
    know_the_clock(control, await control.context.scripts.now_ms(), stepped_ms=LONG_ENOUGH_MS - 1_000)
    assert not await control.pool.start("s1")
    await pass_ms(control, 0)
    assert await control.pool.start("s1")
    assert len(runner.started) == 2


async def test_a_new_leader_that_knows_no_clock_waits_for_a_whole_fence(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner, unruly: FaultyRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await lose_the_node(control, unruly)
    await pass_ms(control, LONG_ENOUGH_MS)
    control.lease.clock.clear()
    await control.lease.step()
    assert not await control.pool.start("s1")
    assert len(runner.started) == 1


async def test_an_engine_that_takes_long_for_one_lost_worker_holds_up_no_other(
    control: Orchestrator,
    api: httpx.AsyncClient,
    teller: Teller,
    runner: FakeRunner,
    unruly: FaultyRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, phone in (("s1", PHONE), ("s2", OTHER)):
        await linked(control, api, teller, name, phone)
    asked, may_end = set(), asyncio.Event()

    async def stop(handle: str, _grace_s: float = 10.0) -> None:
        asked.add(handle)
        await may_end.wait()

    monkeypatch.setattr(runner, "stop", stop)
    unruly.faults.add(RunnerFault.NODE_LOST)
    looking = asyncio.create_task(part(control, ExitWatcher).step())
    await until(lambda: asked == set(runner.running), "both are given up")
    may_end.set()
    await looking


async def test_a_lost_worker_that_the_engine_does_not_give_up_spares_no_other(
    control: Orchestrator,
    api: httpx.AsyncClient,
    teller: Teller,
    runner: FakeRunner,
    unruly: FaultyRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, phone in (("s1", PHONE), ("s2", OTHER)):
        await linked(control, api, teller, name, phone)
    kept = control.pool.workers["s1"].handle

    async def stop(handle: str, _grace_s: float = 10.0) -> None:
        if handle == kept:
            raise Unavailable("ENGINE_AWAY", "the engine does not respond")

    monkeypatch.setattr(runner, "stop", stop)
    unruly.faults.add(RunnerFault.NODE_LOST)
    with pytest.raises(Unavailable):
        await part(control, ExitWatcher).step()
    assert await control.context.redis.lrange(keys.RESTARTING, 0, -1) == ["s2"]
    assert list(control.pool.workers) == ["s1"], "nobody will look at it again"
