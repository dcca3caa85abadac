"""Who acts, what is adopted, who is replaced, and at what pace workers start."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.orchestrator.fakes import FakeRunner, Teller, drive, part
from tests.orchestrator.session_steps import OTHER, PHONE, THIRD, another, linked, now, started
from tests.runner.faulty_runner import FaultyRunner, RunnerFault
from tests.waiting import until
from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions.reconciliation import FoundWorker
from wa_orchestrator.domain.sessions.session import Event, State
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.orchestrator import leader_lease
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.sessions import credential_files, transitions
from wa_orchestrator.orchestrator.workers import tokens
from wa_orchestrator.orchestrator.workers.reconciler import Reconciler
from wa_orchestrator.orchestrator.workers.restart_limit import MAX_RESTARTS
from wa_orchestrator.orchestrator.workers.start_queue import StartQueue
from wa_orchestrator.orchestrator.workers.watchdog import ExitWatcher, Liveness, Watchdog, assess
from wa_orchestrator.store import keys, leases, records, sessions
from wa_orchestrator.store.outcomes import Removed
from wa_orchestrator.store.records import SessionChanges
from wa_orchestrator.store.sessions import CONTROL_LEASE, commands
from wa_orchestrator.store.sessions.control_plane import record_link_start

_HOUR_MS = 3_600_000


# -- one acts ---------------------------------------------------------------------------------------------------------


async def test_of_two_orchestrators_one_acts_and_the_other_takes_over_when_it_ends(
    control: Orchestrator, api: httpx.AsyncClient, runner: FakeRunner
) -> None:
    second = await another(control.context, runner)
    await control.lease.step()  # on a busy machine the lease of the fixture may have expired
    await second.lease.step()
    assert (control.lease.is_leader, second.lease.is_leader) == (True, False)
    await api.post("/api/sessions/provision", json={"sessionId": "s1"})
    assert not await second.pool.start("s1")
    await control.lease.release()
    await second.lease.step()
    assert await second.pool.start("s1")
    assert not await control.pool.start("s1")
    assert len(runner.running) == 1


async def test_a_leader_that_lost_its_lease_without_noticing_can_start_nothing(
    control: Orchestrator, api: httpx.AsyncClient, runner: FakeRunner
) -> None:
    await api.post("/api/sessions/provision", json={"sessionId": "s1"})
    await control.context.redis.delete(keys.lease(CONTROL_LEASE))
    second = await another(control.context, runner)
    await second.lease.step()
    assert control.lease.is_leader  # it believes so
    assert not await control.pool.start("s1")
    assert (runner.running, (await now(control.context, "s1")).epoch) == ({}, 0)


async def test_a_leader_that_was_frozen_until_its_lease_ended_does_not_act_by_its_own_clock(
    control: Orchestrator, api: httpx.AsyncClient, runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.post("/api/sessions/provision", json={"sessionId": "s1"})
    await control.lease.step()
    assert control.lease.is_leader
    woken_at = time.monotonic() + leader_lease.LEASE_MS / 1000
    with monkeypatch.context() as frozen:
        frozen.setattr(time, "monotonic", lambda: woken_at)
        assert not control.lease.is_leader
        assert not await control.pool.start("s1")  # although nobody else leads
        waiting = asyncio.create_task(control.lease.acquired())
        await control.lease.step()
        await waiting
        assert control.lease.is_leader
    assert runner.running == {}


@asynccontextmanager
async def present(*orchestrators: Orchestrator) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Let these show that they live, as their loops do."""
    tasks = [asyncio.create_task(each.lease.presence.run()) for each in orchestrators]
    try:
        for each in orchestrators:
            await each.lease.presence.connected.wait()
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _nobody_listens(orchestrator: Orchestrator) -> bool:
    return not await leases.is_present(orchestrator.context.scripts, orchestrator.lease._owner)


async def test_a_killed_leader_is_succeeded_long_before_its_lease_ends_and_can_do_nothing_then(
    control: Orchestrator, api: httpx.AsyncClient, runner: FakeRunner
) -> None:
    second = await another(control.context, runner)
    await api.post("/api/sessions/provision", json={"sessionId": "s1"})
    async with present(control) as (life,):
        await control.lease.step()
        for _ in range(9):
            await second.lease.step()
        assert not second.lease.is_leader
        life.cancel()
        await until(lambda: _nobody_listens(control), "its connection is gone")
        for _ in range(2):  # one that lost its connection for a moment goes on
            await second.lease.step()
        assert not second.lease.is_leader
        await second.lease.step()
        assert second.lease.is_leader
    assert control.lease.is_leader  # by its own clock: it was no kill, and it has not asked yet
    assert not await control.pool.start("s1")
    await control.lease.step()
    assert not control.lease.is_leader
    assert await second.pool.start("s1")
    assert len(runner.running) == 1


async def test_a_leader_that_never_showed_itself_is_waited_for_until_its_lease_ends(
    control: Orchestrator, runner: FakeRunner
) -> None:
    second = await another(control.context, runner)
    await control.lease.step()
    async with present(second):
        for _ in range(9):
            await second.lease.step()
    assert (control.lease.is_leader, second.lease.is_leader) == (True, False)


async def test_a_leader_that_lives_and_has_taken_a_new_lease_is_not_deposed_by_what_was_seen_of_the_old_one(
    control: Orchestrator, runner: FakeRunner
) -> None:
    second = await another(control.context, runner)
    async with present(control):
        await control.lease.step()
        await second.lease.step()
    await until(lambda: _nobody_listens(control), "its connection is gone")
    await control.lease.release()
    await control.lease.step()  # another fencing number
    for _ in range(9):
        await second.lease.step()
    assert (control.lease.is_leader, second.lease.is_leader) == (True, False)


# -- reconcile --------------------------------------------------------------------------------------------------------


async def test_a_restarted_server_adopts_every_worker_and_restarts_none(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    for number in range(5):
        await linked(control, api, teller, f"s{number}", f"97250000000{number}")
    before = dict(runner.running)
    await control.lease.release()
    reborn = await another(control.context, runner)
    await reborn.lease.step()
    await part(reborn, Reconciler).step()
    await drive(reborn)
    assert runner.running == before
    assert sorted(reborn.pool.workers) == [f"s{number}" for number in range(5)]


async def test_what_is_missing_is_started_and_is_not_called_connected_meanwhile(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    runner.die("s1")
    await control.lease.release()
    reborn = await another(control.context, runner)
    await reborn.lease.step()
    await part(reborn, Reconciler).step()
    missing = await now(control.context, "s1")
    assert (missing.status, missing.reason) == ("disconnected", "SERVER_STOPPED")  # nobody saw how it ended
    await drive(reborn)
    assert list(runner.epochs()) == ["s1"]


async def test_who_is_missing_later_on_has_crashed(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await part(control, Reconciler).step()
    runner.die("s1")
    control.pool.workers.clear()
    await part(control, Reconciler).step()
    assert (await now(control.context, "s1")).reason == "WORKER_CRASHED"


async def test_who_sees_that_a_server_leads_sees_the_grace_of_its_absence_too(
    control: Orchestrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead = control.lease
    await lead.release()
    await control.context.redis.delete(keys.CONTROL_PULSE)
    lead.grace_from_ms = 0
    seen = []
    now_ms = control.context.scripts.now_ms

    async def looked() -> int:
        seen.append((lead.is_leader, lead.grace_from_ms > 0))
        return await now_ms()

    monkeypatch.setattr(control.context.scripts, "now_ms", looked)
    await lead.step()
    assert (True, False) not in [*seen, (lead.is_leader, lead.grace_from_ms > 0)]
    assert seen


async def test_strays_are_stopped_only_after_a_while(control: Orchestrator, runner: FakeRunner) -> None:
    at = round(time.time() * 1000)
    runner.running = {
        "fake/1/old": FoundWorker("fake/1/old", "stray", 3, at - 60_000),
        "fake/1/new": FoundWorker("fake/1/new", "newcomer", 1, at),
    }
    await part(control, Reconciler).step()
    assert list(runner.running) == ["fake/1/new"]


async def test_a_worker_of_an_older_epoch_is_replaced(
    control: Orchestrator, api: httpx.AsyncClient, runner: FakeRunner
) -> None:
    session = await started(control, api)
    assert await control.pool.fence(session) == session.epoch + 1
    control.pool.workers.clear()
    await part(control, Reconciler).step()
    await drive(control)
    assert runner.epochs() == {"s1": session.epoch + 2}


async def test_of_two_workers_of_a_session_one_is_stopped_at_once(
    control: Orchestrator, api: httpx.AsyncClient, runner: FakeRunner
) -> None:
    session = await started(control, api)
    twin = FoundWorker("fake/1/twin", "s1", session.epoch - 1, round(time.time() * 1000))
    runner.running[twin.handle] = twin
    await part(control, Reconciler).step()
    assert runner.epochs() == {"s1": session.epoch}


async def test_what_a_crash_left_half_done_is_finished(
    control: Orchestrator, api: httpx.AsyncClient, runner: FakeRunner
) -> None:
    await started(control, api, "deleted")
    await started(control, api, "stopped")
    redis = control.context.redis
    await redis.hset(keys.session("deleted"), mapping={"removing": "keep", "wanted": "stopped"})
    await redis.hset(keys.session("stopped"), "wanted", transitions.STOPPED)
    await part(control, Reconciler).step()
    await drive(control)
    assert runner.running == {}
    assert await records.session(control.context.scripts, "deleted") is None
    assert (await now(control.context, "stopped")).status == "stopped"


# -- ends and silence -------------------------------------------------------------------------------------------------


async def test_a_worker_that_ended_is_replaced_and_fenced(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    before = await now(control.context, "s1")
    runner.die("s1")
    await part(control, ExitWatcher).step()
    assert (await now(control.context, "s1")).reason == "WORKER_CRASHED"
    await drive(control)
    assert runner.epochs()["s1"] > before.epoch
    assert (await teller.connected("s1", PHONE, epoch=before.epoch)).json()["code"] == "FENCED"


async def test_after_three_restarts_the_fourth_end_is_the_last(
    control: Orchestrator, api: httpx.AsyncClient, runner: FakeRunner
) -> None:
    await started(control, api)
    for _ in range(4):
        runner.die("s1")
        await part(control, ExitWatcher).step()
        await drive(control)
    after = await now(control.context, "s1")
    assert (after.status, after.reason, runner.running, len(runner.started)) == ("failed", "TOO_MANY_RESTARTS", {}, 4)
    await api.post("/api/sessions/s1/start")
    await drive(control)
    assert list(runner.epochs()) == ["s1"]


async def test_a_worker_that_cannot_be_started_is_given_up_in_the_end(
    control: Orchestrator, api: httpx.AsyncClient, runner: FakeRunner
) -> None:
    runner.refuses = True
    await started(control, api)
    for _ in range(MAX_RESTARTS):
        await part(control, Reconciler).step()
        await drive(control)
    assert (await now(control.context, "s1")).reason == "TOO_MANY_RESTARTS"


async def test_an_engine_that_is_away_for_long_fails_no_session(
    control: Orchestrator, api: httpx.AsyncClient, runner: FakeRunner
) -> None:
    runner.is_away = True
    assert (await api.post("/api/sessions/provision", json={"sessionId": "s1"})).status_code == 201
    for _ in range(2 * MAX_RESTARTS):
        with pytest.raises(Unavailable):
            await drive(control)
    runner.is_away = False
    await drive(control)
    assert (list(runner.epochs()), (await now(control.context, "s1")).reason) == (["s1"], "STARTING")


@pytest.mark.parametrize(
    ("silent_ms", "missed_ago_ms", "verdict"),
    [
        (0, None, Liveness.HEALTHY),
        (119_000, None, Liveness.HEALTHY),
        (121_000, None, Liveness.MISSED),
        (179_000, 59_000, Liveness.MISSED),
        (181_000, 59_000, Liveness.SILENT),
        (181_000, None, Liveness.MISSED),
        (181_000, 200_000, Liveness.MISSED),  # an older miss was followed by a sign of life
        (10 * _HOUR_MS, None, Liveness.MISSED),
    ],
)
def test_silence_is_judged_in_two_steps(silent_ms: int, missed_ago_ms: int | None, verdict: Liveness) -> None:
    at = 1_750_000_000_000
    missed = 0 if missed_ago_ms is None else at - missed_ago_ms
    assert assess(at, at - silent_ms, missed, timeout_ms=180_000, round_ms=60_000) is verdict


async def silence(control: Orchestrator, session_id: str, ms: int) -> None:
    """Let a worker's last sign be so long ago."""
    at = str(await control.context.scripts.now_ms() - ms)
    await control.context.redis.hset(keys.session(session_id), mapping={"last_ping_at": at, "started_at": at})
    control.lease.grace_from_ms = 0


async def test_a_silent_worker_is_marked_first_and_replaced_in_the_next_round(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await linked(control, api, teller, "s2", "972507777777")
    before = await now(control.context, "s1")
    await silence(control, "s1", 200_000)
    await part(control, Watchdog).step()
    assert runner.epochs() == {"s1": before.epoch, "s2": 1}
    await part(control, Watchdog).step()
    assert (await now(control.context, "s1")).reason == "WORKER_SILENT"
    assert runner.stops[-1][1] == 0  # by force: it does not listen
    await drive(control)
    assert runner.epochs()["s1"] > before.epoch
    assert runner.epochs()["s2"] == 1


async def test_a_worker_that_pings_and_claims_nothing_is_marked_first_and_then_replaced(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    before = await now(control.context, "s1")
    await silence(control, "s1", 1_000)
    for unclaimed in (1, 2):
        await control.context.redis.hset(keys.session("s1"), "unclaimed", unclaimed)
        await part(control, Watchdog).step()
        assert (await now(control.context, "s1")).status == "connected"
    await control.context.redis.hset(keys.session("s1"), "unclaimed", 3)
    control.lease.grace_from_ms = await control.context.scripts.now_ms()  # the server was away: nobody could claim
    await part(control, Watchdog).step()
    assert (await now(control.context, "s1")).status == "connected"
    control.lease.grace_from_ms = 0
    await part(control, Watchdog).step()
    assert (await now(control.context, "s1")).reason == "WORKER_SILENT"
    await drive(control)
    assert runner.epochs()["s1"] > before.epoch
    assert (await now(control.context, "s1")).unclaimed == 0


async def test_a_worker_that_speaks_or_is_replaced_while_the_watchdog_waits_for_its_turn_is_left_alone(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    for name, phone in (("speaks", PHONE), ("replaced", "972507777777")):
        await linked(control, api, teller, name, phone)
        await silence(control, name, 200_000)
    await part(control, Watchdog).step()
    for name in ("speaks", "replaced"):
        async with control.pool.lock(name):
            judging = asyncio.create_task(part(control, Watchdog)._replace(await now(control.context, name)))
            await asyncio.sleep(0)
            if name == "speaks":
                heard_at = await control.context.scripts.now_ms()
                await control.context.redis.hset(keys.session(name), "last_ping_at", heard_at)
            else:
                await control.pool.replace(await now(control.context, name), 0)
        await judging
    await drive(control)
    assert [each.session_id for each in runner.started] == ["speaks", "replaced", "replaced"]
    assert not await control.context.redis.exists(keys.restarts("speaks"), keys.restarts("replaced"))


async def test_a_worker_that_is_fenced_while_reconcile_looks_around_is_not_adopted(
    control: Orchestrator, api: httpx.AsyncClient, runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await started(control, api)
    control.pool.workers.clear()
    looked = runner.survey

    async def survey() -> Sequence[FoundWorker]:
        found = await looked()
        await control.pool.fence(session)
        return found

    monkeypatch.setattr(runner, "survey", survey)
    await part(control, Reconciler).step()
    assert control.pool.workers == {}


async def test_a_ping_between_the_two_steps_saves_a_worker(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await silence(control, "s1", 200_000)
    await part(control, Watchdog).step()
    ping = {"timestamp": round(time.time() * 1000), "socket": "open", "lagMs": 2, "rssBytes": 30_000_000}
    assert (await teller.tell("s1", "PING", ping)).status_code == 200
    await part(control, Watchdog).step()
    assert len(runner.started) == 1
    shown = (await api.get("/api/sessions/s1/status")).json()["worker"]
    assert (shown["socket"], shown["rssBytes"]) == ("open", 30_000_000)


async def test_after_an_absence_of_the_server_everyone_has_fresh_grace(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await silence(control, "s1", 200_000)
    at = await control.context.scripts.now_ms()
    await control.context.redis.set(keys.CONTROL_PULSE, at - 31_000)
    await control.lease.step()
    for _ in range(3):
        await part(control, Watchdog).step()
    assert len(runner.started) == 1


async def test_a_short_absence_gives_no_grace(control: Orchestrator) -> None:
    control.lease.grace_from_ms = 0
    at = await control.context.scripts.now_ms()
    await control.context.redis.set(keys.CONTROL_PULSE, at - 20_000)
    await control.lease.step()
    assert control.lease.grace_from_ms == 0


# -- the pace of starts -----------------------------------------------------------------------------------------------


async def test_workers_start_one_per_interval_also_across_a_restart_of_the_server(
    control: Orchestrator, api: httpx.AsyncClient, runner: FakeRunner
) -> None:
    context = control.context
    context.settings = context.settings.model_copy(update={"provisioning_interval_ms": 3_600_000})
    for number in range(3):
        await api.post("/api/sessions/provision", json={"sessionId": f"s{number}"})
    await control.lease.step()  # a slow machine may have let the lease run out
    assert await part(control, StartQueue).step() == 0
    assert 0 < await part(control, StartQueue).step() <= 3600
    await control.lease.release()
    reborn = await another(context, runner)
    await reborn.lease.step()
    await part(reborn, Reconciler).step()
    assert 0 < await part(reborn, StartQueue).step() <= 3600
    assert len(runner.started) == 1
    await record_link_start(reborn.context.scripts, await reborn.context.scripts.now_ms() - 3_600_000)
    await part(reborn, StartQueue).step()
    assert len(runner.started) == 2


async def test_linked_sessions_come_back_at_a_pace_of_their_own_while_new_ones_wait_for_theirs(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    for name, phone in (("s1", PHONE), ("s2", OTHER), ("s3", THIRD)):
        await linked(control, api, teller, name, phone)
    slow = {"provisioning_interval_ms": 3_600_000, "restart_interval_ms": 0}
    control.context.settings = control.context.settings.model_copy(update=slow)
    await record_link_start(control.context.scripts, await control.context.scripts.now_ms())
    await api.post("/api/sessions/provision", json={"sessionId": "new"})
    for name in ("s1", "s2", "s3"):
        await control.pool.replace(await now(control.context, name), 0)
    for _ in range(5):
        await part(control, StartQueue).step()
    assert sorted(runner.epochs()) == ["s1", "s2", "s3"]


async def test_restarts_keep_their_pace_across_a_restart_of_the_server(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    for name, phone in (("s1", PHONE), ("s2", OTHER)):
        await linked(control, api, teller, name, phone)
    for name in ("s1", "s2"):
        await control.pool.replace(await now(control.context, name), 0)
    context = control.context
    context.settings = context.settings.model_copy(update={"restart_interval_ms": 3_600_000})
    await part(control, StartQueue).step()
    await control.lease.release()
    reborn = await another(context, runner)
    await reborn.lease.step()
    assert await part(reborn, StartQueue).step() > 0
    assert list(runner.epochs()) == ["s2"]


async def test_a_session_that_was_logged_out_while_it_waited_for_its_restart_waits_as_one_to_be_linked(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await control.pool.replace(await now(control.context, "s1"), 0)
    await sessions.update(control.context.scripts, "s1", SessionChanges(first_connected_at=0))
    slow = {"provisioning_interval_ms": 3_600_000}
    control.context.settings = control.context.settings.model_copy(update=slow)
    await record_link_start(control.context.scripts, await control.context.scripts.now_ms())
    for _ in range(3):
        await part(control, StartQueue).step()
    assert runner.running == {}


async def test_a_session_is_connected_only_when_its_new_worker_says_so(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    runner.running.clear()  # a power cut: the record still says that it is connected
    control.pool.workers.clear()
    assert await control.pool.start("s1")
    again = await now(control.context, "s1")
    assert (again.status, again.reason) == ("disconnected", "RECONNECTING")
    await teller.connected("s1", PHONE)
    assert (await now(control.context, "s1")).status == "connected"


async def test_after_a_power_cut_all_are_told_before_one_is_started_and_an_error_of_one_spares_no_other(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, phone in (("s1", PHONE), ("s2", OTHER), ("s3", THIRD)):
        await linked(control, api, teller, name, phone)
    runner.running.clear()
    reborn = await another(control.context, runner)
    await control.lease.release()
    await reborn.lease.step()
    apply = transitions.apply

    async def fails_for_one(context: Context, session_id: str, *event: Any) -> Any:
        if session_id == "s1":
            raise Unavailable("AWAY", "told to be away")
        return await apply(context, session_id, *event)

    with monkeypatch.context() as broken:
        broken.setattr(transitions, "apply", fails_for_one)
        with pytest.raises(Unavailable):
            await part(reborn, Reconciler).step()
    said = [(await now(control.context, each)).status for each in ("s1", "s2", "s3")]
    assert said == ["connected", "disconnected", "disconnected"]
    await part(reborn, Reconciler).step()
    assert (await now(control.context, "s1")).reason == "SERVER_STOPPED"


async def test_a_start_lost_between_queue_and_runner_is_made_up_for(
    control: Orchestrator, api: httpx.AsyncClient, runner: FakeRunner
) -> None:
    await api.post("/api/sessions/provision", json={"sessionId": "s1"})
    await control.context.redis.lpop(keys.PROVISIONING)
    await part(control, Reconciler).step()
    await drive(control)
    assert list(runner.epochs()) == ["s1"]


async def test_a_moved_session_starts_only_when_the_proxys_own_count_has_room(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    for number in range(4):
        await linked(
            control, api, teller, f"s{number}", f"97250000000{number}", proxy="socks5h://u:p@one.example.com:1080"
        )
    # Its record gave the slot up, but its worker has not ended yet.
    proxy_id = (await now(control.context, "s0")).proxy
    await control.context.redis.srem(keys.sessions_of_proxy(proxy_id), "s0")
    await control.context.redis.hset(keys.session("s0"), "proxy", "")
    answer = await api.post(
        "/api/sessions/provision", json={"sessionId": "eager", "proxy": "socks5h://u:p@one.example.com:1080"}
    )
    assert answer.status_code == 201
    assert not await control.pool.start("eager")
    await control.pool.stop("s0", 0)
    assert await control.pool.start("eager")


# -- what a worker is given -------------------------------------------------------------------------------------------


async def test_secrets_reach_the_worker_as_secrets_and_belong_to_session_and_epoch(
    control: Orchestrator, api: httpx.AsyncClient, runner: FakeRunner, settings: Any
) -> None:
    await started(control, api)
    order = runner.started[0]
    assert set(order.secrets) == {"WORKER_TOKEN", "WEBHOOK_SECRET", "PROXY_URL"}
    assert not set(order.secrets.values()) & set(order.environment.values())
    minted = {tokens.mint(settings, name, epoch).token for name in ("s1", "s2") for epoch in (1, 2)}
    assert len(minted) == 4
    assert order.secrets["WORKER_TOKEN"] == tokens.mint(settings, "s1", 1).token


async def test_the_trash_is_emptied_after_its_days(control: Orchestrator, settings: Any) -> None:
    week_ago = round(time.time() * 1000) - 7 * 24 * _HOUR_MS
    for name, at in (("old", week_ago - 1), ("young", week_ago + _HOUR_MS)):
        (settings.sessions_dir / name).mkdir(parents=True)
        (settings.sessions_dir / name / "auth.db").write_text("x")
        await credential_files.discard(settings, name, at, phone="", label="", why="deleted")
    await credential_files.purge(control.context)
    assert [each.session_id for each in credential_files.list_trash(settings)] == ["young"]


# -- a runner that misbehaves -----------------------------------------------------------------------------------------


@pytest.fixture
def unruly(control: Orchestrator, runner: FakeRunner) -> FaultyRunner:
    """The control plane's runner, which can be told to break its promises."""
    made = FaultyRunner(runner)
    control.pool.runner = made
    return made


async def test_a_start_that_lies_leaves_no_second_worker(
    control: Orchestrator, api: httpx.AsyncClient, runner: FakeRunner, unruly: FaultyRunner
) -> None:
    unruly.faults.add(RunnerFault.START_LIES)
    await api.post("/api/sessions/provision", json={"sessionId": "s1"})
    await control.lease.step()  # a slow machine may have let the lease run out
    await part(control, StartQueue).step()
    assert len(runner.running) == 1  # it runs, and nobody knows
    unruly.faults.clear()
    await part(control, Reconciler).step()
    await drive(control)
    assert len(runner.running) == 1
    assert runner.epochs()["s1"] == (await now(control.context, "s1")).epoch


async def test_an_engine_that_is_away_is_no_proof_that_workers_ended(
    control: Orchestrator, api: httpx.AsyncClient, runner: FakeRunner, unruly: FaultyRunner
) -> None:
    await started(control, api)
    unruly.faults |= {RunnerFault.POLL_UNAVAILABLE, RunnerFault.SURVEY_UNAVAILABLE}
    await part(control, ExitWatcher).step()
    with pytest.raises(Unavailable):
        await part(control, Reconciler).step()
    await drive(control)
    assert len(runner.started) == 1


async def test_a_worker_whose_node_is_lost_is_fenced_and_replaced(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner, unruly: FaultyRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    before = await now(control.context, "s1")
    unruly.faults.add(RunnerFault.NODE_LOST)
    await part(control, ExitWatcher).step()
    assert (await now(control.context, "s1")).status == State.DISCONNECTED
    assert (await teller.connected("s1", PHONE, epoch=before.epoch)).json()["code"] == "FENCED"
    unruly.faults.clear()
    await drive(control)
    assert runner.epochs() == {"s1": (await now(control.context, "s1")).epoch}
    assert len(runner.started) == 2


async def test_a_lost_worker_that_a_new_server_finds_is_replaced_and_not_adopted(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner, unruly: FaultyRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    before = await now(control.context, "s1")
    control.pool.workers.clear()
    unruly.faults.add(RunnerFault.NODE_LOST)
    await part(control, Reconciler).step()
    assert (control.pool.workers, runner.running) == ({}, {})
    unruly.faults.clear()
    await drive(control)
    assert runner.epochs()["s1"] > before.epoch


async def test_a_lost_worker_that_nobody_wants_is_not_replaced(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner, unruly: FaultyRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await transitions.apply(control.context, "s1", Event.LOGGED_OUT)
    unruly.faults.add(RunnerFault.NODE_LOST)
    await part(control, ExitWatcher).step()
    assert (runner.running, len(runner.started)) == ({}, 1)


async def test_a_worker_that_cannot_be_killed_is_fenced_before_anything_else_is_tried(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner, unruly: FaultyRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    before = await now(control.context, "s1")
    unruly.faults.add(RunnerFault.STOP_DOES_NOTHING)
    await silence(control, "s1", 200_000)
    for _ in range(2):
        await part(control, Watchdog).step()
    assert (await teller.connected("s1", PHONE, epoch=before.epoch)).json()["code"] == "FENCED"
    await part(control, StartQueue).step()
    assert len(runner.running) == 1  # never two, whatever is asked


# -- nothing grows for ever -------------------------------------------------------------------------------------------


async def test_a_sessions_lock_is_one_for_all_who_want_it_and_forgotten_afterwards(control: Orchestrator) -> None:
    async with control.pool.lock("s1"):
        assert control.pool.lock("s1").locked()
        assert not control.pool.lock("s2").locked()
    assert len(control.pool._locks) == 0


async def test_an_inquiry_that_breaks_is_not_kept(control: Orchestrator, monkeypatch: pytest.MonkeyPatch) -> None:
    async def breaks(_proxy_id: str, _at_ms: int) -> bool:
        raise Unavailable("BROKEN", "it breaks")

    monkeypatch.setattr(control.proxy_health, "_inquire", breaks)
    with pytest.raises(Unavailable):
        await control.proxy_health.report_failure("p1", "s1", 1, 0)
    assert (control.proxy_health._inquiries, control.proxy_health._busy) == ({}, set())


async def test_a_command_that_no_worker_takes_ends_by_itself(context: Context) -> None:
    await commands.push(context.scripts, "s1", "logout")
    assert 0 < await context.redis.pttl(keys.commands("s1")) <= commands.KEEP_MS


async def test_the_hold_of_a_session_goes_with_it(
    control: Orchestrator, api: httpx.AsyncClient, runner: FakeRunner
) -> None:
    await started(control, api, "s1")
    await api.post("/api/anti-ban/holds", json={"sessionId": "s1"})
    session = await now(control.context, "s1")
    removed = await sessions.remove(control.context.scripts, "s1", proxy=session.proxy, phone=session.phone)
    assert (removed, await records.holds(control.context.scripts)) == (Removed(), {})
