"""The clock of Redis' machine is set back by an hour: workers and proxies are watched all the same."""

import time

import httpx

from tests.orchestrator.conftest import PROXIES
from tests.orchestrator.fakes import FakeCheck, FakeRunner, Teller, part
from tests.orchestrator.session_steps import IDS, OTHER, PHONE, linked, now
from wa_orchestrator.orchestrator.proxies.monitor import check_due_proxies
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.workers.restart_limit import MAX_RESTARTS, WINDOW_MS
from wa_orchestrator.orchestrator.workers.start_queue import StartQueue
from wa_orchestrator.orchestrator.workers.watchdog import Watchdog
from wa_orchestrator.store import keys
from wa_orchestrator.store.sessions import control_plane

HOUR_MS = 3_600_000


async def test_a_worker_that_was_last_heard_in_the_future_is_replaced_and_one_that_pings_is_not(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await linked(control, api, teller, "s2", OTHER)
    ahead = str(await control.context.scripts.now_ms() + HOUR_MS)
    await control.context.redis.hset(keys.session("s1"), mapping={"last_ping_at": ahead, "started_at": ahead})
    control.lease.grace_from_ms = 0
    for _ in range(2):
        await part(control, Watchdog).step()
    assert (await now(control.context, "s1")).reason == "WORKER_SILENT"
    assert runner.epochs() == {"s2": 1}


async def test_a_healthy_worker_is_not_judged_before_the_leader_has_seen_that_the_clock_was_set_back(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    ahead = await control.context.scripts.now_ms() + HOUR_MS
    redis, record = control.context.redis, keys.session("s1")
    await redis.hset(record, mapping={"last_ping_at": str(ahead), "started_at": str(ahead), "missed_at": "1"})
    control.lease.grace_from_ms = ahead
    control.lease.clock.note(ahead, time.monotonic())
    await control_plane.record_pulse(control.context.scripts, ahead)
    await part(control, Watchdog).step()
    await control.lease.step()
    await part(control, Watchdog).step()
    assert runner.epochs() == {"s1": 1}


async def test_workers_get_a_new_grace_period(control: Orchestrator) -> None:
    at_ms = await control.context.scripts.now_ms()
    control.lease.grace_from_ms = 0
    await control_plane.record_pulse(control.context.scripts, at_ms + HOUR_MS)
    await control.lease.step()
    assert control.lease.grace_from_ms >= at_ms


async def test_proxies_whose_next_check_is_beyond_any_interval_are_checked_now(
    control: Orchestrator, check: FakeCheck
) -> None:
    at_ms = await control.context.scripts.now_ms()
    for proxy_id, next_ms in zip(IDS, (at_ms + 10 * 60_000, at_ms + 20_000, at_ms), strict=True):
        await control.context.redis.hset(keys.proxy(proxy_id), "next_check_at", next_ms)
    check.checked.clear()
    await check_due_proxies(control.context, control.proxy_health)
    assert sorted(check.checked) == sorted([PROXIES[0], PROXIES[2]])


async def test_sessions_start_at_once_although_the_last_start_was_in_the_future(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "old", PHONE)
    await control.pool.replace(await now(control.context, "old"), 0)
    await api.post("/api/sessions/provision", json={"sessionId": "new"})
    paced = {"provisioning_interval_ms": 60_000, "restart_interval_ms": 1_000}
    control.context.settings = control.context.settings.model_copy(update=paced)
    ahead_ms = await control.context.scripts.now_ms() + HOUR_MS
    await control_plane.record_link_start(control.context.scripts, ahead_ms)
    await control_plane.set_restart_after(control.context.scripts, ahead_ms)
    for _ in range(2):
        await part(control, StartQueue).step()
    assert sorted(runner.epochs()) == ["new", "old"]


async def test_restarts_before_the_clock_was_set_back_do_not_count_for_another_hour(control: Orchestrator) -> None:
    scripts = control.context.scripts
    now_ms = await scripts.now_ms()
    for number in range(MAX_RESTARTS):
        ahead_ms = now_ms + HOUR_MS + number
        await control_plane.count_restart(scripts, "s1", now_ms=ahead_ms, window_ms=WINDOW_MS)
    assert await control_plane.count_restart(scripts, "s1", now_ms=now_ms, window_ms=WINDOW_MS) == 0
