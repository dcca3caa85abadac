"""The server stops, or ends while it does: its workers end, their sessions say why, and the next one goes on."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.orchestrator.fakes import FakeRunner, Teller, drive, part
from tests.orchestrator.session_steps import OTHER, PHONE, THIRD, another, linked, now, started, with_credentials
from tests.waiting import PATIENCE_S
from wa_orchestrator.domain.sessions.reconciliation import FoundWorker
from wa_orchestrator.domain.sessions.session import Event
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.orchestrator import leader_lease as lease
from wa_orchestrator.orchestrator import service
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.sessions import credential_files, transitions
from wa_orchestrator.orchestrator.workers.reconciler import Reconciler
from wa_orchestrator.orchestrator.workers.session_controller import SessionController
from wa_orchestrator.orchestrator.workers.watchdog import ExitWatcher
from wa_orchestrator.runner.contract import Exited
from wa_orchestrator.store import keys, leases
from wa_orchestrator.store.records import SessionChanges
from wa_orchestrator.store.sessions import CONTROL_LEASE


async def test_a_stop_and_start_of_the_server_reads_as_that_and_counts_as_no_restart(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    for _ in range(5):
        await control.lease.retire()
        await control.stop_workers()
        stopped = await now(control.context, "s1")
        assert (runner.running, stopped.status, stopped.reason) == ({}, "disconnected", "SERVER_STOPPED")
        control = await another(control.context, runner)
        await control.lease.step()
        await part(control, Reconciler).step()
        await drive(control)
        await teller.connected("s1", PHONE)
    assert (await now(control.context, "s1")).status == "connected"
    told = (await api.get("/api/sessions/s1/history")).json()["events"]
    assert {each["what"] for each in told if each.get("what")} == {
        "WORKER_STARTED",
        "QR_SHOWN",
        "CONNECTED",
        "SERVER_STOPPED",
    }
    assert not await control.context.redis.exists(keys.restarts("s1"))


@pytest.mark.parametrize("why", [Event.SERVER_STOPPED, Event.RESTART_ASKED, Event.FAILED_OVER, Event.WORKER_DIED])
async def test_a_session_whose_worker_runs_again_says_that_it_reconnects_and_not_what_it_came_from(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, why: Event
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await transitions.request_restart(control.context, await now(control.context, "s1"), why)
    for _ in range(2):  # a second start before it is connected changes nothing, and is not told
        await drive(control)
        again = await now(control.context, "s1")
        assert (again.status, again.reason) == ("disconnected", "RECONNECTING")
        await control.pool.replace(again, 0)
    told = (await api.get("/api/sessions/s1/history")).json()["events"]
    assert [each["what"] for each in told if each.get("what")][:2] == ["WORKER_STARTED", why]


async def test_a_worker_that_ends_with_the_server_while_it_is_looked_at_has_not_crashed(
    control: Orchestrator, api: httpx.AsyncClient, runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    await started(control, api)

    async def poll(_: str) -> Exited:
        await control.lease.retire()
        return Exited()

    monkeypatch.setattr(runner, "poll", poll)
    await part(control, ExitWatcher).step()
    assert (await now(control.context, "s1")).reason != "WORKER_CRASHED"
    assert not await control.context.redis.exists(keys.restarts("s1"))


async def test_a_server_that_retires_while_it_asks_for_the_lease_does_not_lead_afterwards(
    control: Orchestrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = leases.acquire_lease

    async def acquire(*args: Any, **wishes: Any) -> leases.Holding | leases.LeaseTaken:
        outcome = await asked(*args, **wishes)
        await control.lease.retire()
        return outcome

    monkeypatch.setattr(leases, "acquire_lease", acquire)
    await control.lease.step()
    assert not control.lease.is_leader
    assert not await control.context.redis.exists(keys.lease(CONTROL_LEASE))


async def test_a_worker_that_outlived_the_stop_of_its_server_is_replaced_by_the_next_one(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, phone in (("survivor", PHONE), ("s1", OTHER), ("s2", THIRD)):
        await linked(control, api, teller, name, phone)
    survivor = await now(control.context, "survivor")
    end = runner.stop

    async def stop(handle: str, grace_s: float = 10.0) -> None:
        if runner.running[handle].session_id == "survivor":
            raise Unavailable("ENGINE_AWAY", "told to be away")
        await asyncio.sleep(0.01)
        await end(handle, grace_s)

    with monkeypatch.context() as away:
        away.setattr(runner, "stop", stop)
        await control.lease.retire()
        await control.stop_workers()
    assert runner.epochs() == {"survivor": survivor.epoch}
    reborn = await another(control.context, runner)
    await reborn.lease.step()
    await part(reborn, Reconciler).step()
    await drive(reborn)
    assert runner.epochs()["survivor"] > survivor.epoch  # its socket was open: it would never have said so again
    assert not await control.context.redis.exists(keys.restarts("survivor"))


async def test_a_worker_whose_start_was_under_way_when_the_server_stopped_ends_with_it(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    late = FoundWorker("fake/1/late", "s2", 1, 0)
    end = runner.stop

    async def stop(handle: str, grace_s: float = 10.0) -> None:
        await end(handle, grace_s)
        if handle != late.handle:
            runner.running[late.handle] = late

    monkeypatch.setattr(runner, "stop", stop)
    await control.lease.retire()
    await control.stop_workers()
    assert runner.running == {}


async def test_a_redis_that_hangs_keeps_no_worker_from_its_end(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, phone in (("s0", PHONE), ("s1", OTHER), ("s2", THIRD)):
        await linked(control, api, teller, name, phone)
    settle = transitions.apply

    async def hangs(context: Any, session_id: str, *wishes: Any) -> None:
        if session_id != "s2":
            await asyncio.Event().wait()
        await settle(context, session_id, *wishes)

    monkeypatch.setattr(transitions, "apply", hangs)
    monkeypatch.setattr(service, "RECORD_STOPS_S", 2.0)  # enough for Redis, on a busy machine too
    async with asyncio.timeout(PATIENCE_S):
        await control.stop_workers()
    assert runner.running == {}
    assert [(await now(control.context, each)).reason for each in ("s0", "s2")] == [None, "SERVER_STOPPED"]


async def test_a_redis_that_hangs_keeps_no_server_from_giving_up_its_lease(
    control: Orchestrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hangs(*_: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(leases, "release_lease", hangs)
    monkeypatch.setattr(lease, "LEASE_MS", 50)
    async with asyncio.timeout(PATIENCE_S):
        await control.lease.retire()
    assert not control.lease.is_leader


async def test_credentials_are_exchanged_only_when_a_worker_that_outlived_its_server_has_ended(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    old = await now(control.context, "s1")
    with_credentials(control, "of the phone")
    await transitions.request_restart(control.context, old, Event.RESTART_ASKED, SessionChanges(discard=True))
    await control.lease.release()
    reborn = await another(control.context, runner)
    await reborn.lease.step()
    seen: list[tuple[int, bool]] = []
    discard = credential_files.discard

    async def discarded(*args: Any, **wishes: Any) -> None:
        seen.append((len(runner.running), (await now(control.context, "s1")).epoch > old.epoch))
        await discard(*args, **wishes)

    monkeypatch.setattr(credential_files, "discard", discarded)
    await part(reborn, SessionController).attend("s1")  # before the reconciler has looked around
    assert seen == [(0, True)]
    await drive(reborn)
    assert runner.epochs() == {"s1": (await now(control.context, "s1")).epoch}
