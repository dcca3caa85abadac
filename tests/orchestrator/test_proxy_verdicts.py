"""No phone changes its exit because of a blip, of our own outage, or of what was reported too late."""

import time
from typing import Any

import httpx
import pytest

from tests.orchestrator.conftest import PROXIES
from tests.orchestrator.fakes import FakeCheck, FakeRunner, Teller, drive, part
from tests.orchestrator.session_steps import IDS, another, condemned, linked, now
from tests.orchestrator.test_proxies import blame, judged
from wa_orchestrator.context import Context
from wa_orchestrator.domain.proxies.proxy_health import Patience
from wa_orchestrator.orchestrator.notifications.alert_texts import alert_of, text_of
from wa_orchestrator.orchestrator.proxies import health
from wa_orchestrator.orchestrator.proxies.monitor import check_due_proxies
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.workers.reconciler import Reconciler
from wa_orchestrator.store import keys, records, sessions
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.records import SessionChanges

SESSIONS = ("s1", "s2", "s3")


@pytest.fixture(autouse=True)
async def fleet(control: Orchestrator, api: httpx.AsyncClient, teller: Teller) -> None:
    """One connected session on each of three proxies."""
    for number, (name, url) in enumerate(zip(SESSIONS, PROXIES, strict=True)):
        await linked(control, api, teller, name, f"97250000000{number}", proxy=url)


async def exits(control: Orchestrator) -> list[str]:
    """The proxy of each session, as recorded and after everything that waits was done."""
    await drive(control)
    return [(await now(control.context, name)).proxy for name in SESSIONS]


async def events(control: Orchestrator, *types: str) -> list[dict[str, Any]]:
    found = await event_stream.read(control.context.scripts, most=1000)
    return [dict(entry.fields) for entry in found if entry.fields["type"] in types]


async def complain_long_ago(control: Orchestrator, proxy_id: str, ago_ms: int) -> None:
    """Let the recorded complaints about a proxy be older than they are."""
    at = await control.context.scripts.now_ms() - ago_ms
    await control.context.redis.hset(keys.proxy(proxy_id), "strikes", f"[{at}]")


async def hear_whatsapp(control: Orchestrator, session_id: str) -> None:
    """Let a ping say that its worker heard WhatsApp just now."""
    heard = SessionChanges(last_traffic_at=round(time.time() * 1000) + 1)
    await sessions.update(control.context.scripts, session_id, heard)


# -- slots of workers that end slowly ---------------------------------------------------------------------------------


async def test_a_moved_session_keeps_its_old_slot_until_its_worker_is_gone_also_after_the_server_was_killed(
    control: Orchestrator, context: Context, api: httpx.AsyncClient, check: FakeCheck, runner: FakeRunner
) -> None:
    check.dead.add(PROXIES[0])
    await condemned(control, IDS[0])  # and nobody has stopped the old worker yet
    check.dead.clear()
    assert (await now(context, "s1")).proxy in IDS[1:]
    await api.post(f"/api/v1/proxies/{IDS[0]}/reinstate")
    await control.lease.release()
    successor = await another(context, runner)
    await successor.lease.step()
    await part(successor, Reconciler).step()
    assert successor.pool.workers["s1"].proxy == IDS[0]
    taken = [(await api.post("/api/sessions/provision", json={"proxy": PROXIES[0]})).status_code for _ in range(4)]
    assert taken == [201, 201, 201, 409]  # with the old worker there are four
    await drive(successor)
    proxy = await records.proxy(context.scripts, IDS[0])
    assert proxy is not None
    assert "s1" not in proxy.sessions


async def test_a_slot_kept_for_a_worker_that_died_with_the_server_is_freed(
    control: Orchestrator, context: Context, check: FakeCheck, runner: FakeRunner
) -> None:
    check.dead.add(PROXIES[0])
    await condemned(control, IDS[0])
    assert (await now(context, "s1")).leaving == IDS[0]
    runner.die("s1")
    control.pool.workers.clear()
    await part(control, Reconciler).step()
    assert (await now(context, "s1")).leaving == ""


# -- checks that fail -------------------------------------------------------------------------------------------------


async def test_one_failed_check_moves_nobody(control: Orchestrator, check: FakeCheck) -> None:
    check.dead.add(PROXIES[0])
    await control.proxy_health.check(IDS[0])
    check.dead.clear()
    await control.proxy_health.check(IDS[0])
    check.dead.add(PROXIES[0])
    await control.proxy_health.check(IDS[0])
    assert await exits(control) == IDS
    assert await events(control, "proxy.bad", "session.moved") == []


async def test_a_phone_that_hears_whatsapp_through_its_proxy_stays_although_checks_fail(
    control: Orchestrator, check: FakeCheck
) -> None:
    check.dead.add(PROXIES[0])
    await control.proxy_health.check(IDS[0])
    await hear_whatsapp(control, "s1")
    await control.proxy_health.check(IDS[0])
    assert await exits(control) == IDS


@pytest.mark.usefixtures("present")
async def test_a_connected_session_nobody_complains_about_gets_the_time_to_show_traffic(
    control: Orchestrator, check: FakeCheck, teller: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "PATIENCE", Patience(confirm_ms=0, traffic_due_ms=60_000))
    check.dead.add(PROXIES[0])
    await condemned(control, IDS[0])
    assert await exits(control) == IDS
    await blame(teller, "s1")
    await judged(control)
    assert (await exits(control))[0] not in ("", IDS[0])


@pytest.mark.parametrize("dead", [PROXIES[:2], PROXIES])
async def test_when_most_proxies_fail_at_once_nobody_moves_and_one_alert_says_whose_fault_it_is(
    control: Orchestrator, check: FakeCheck, runner: FakeRunner, dead: tuple[str, ...]
) -> None:
    before = runner.epochs()
    check.dead.update(dead)
    for _ in range(6):
        await check_due_proxies(control.context, control.proxy_health)
    assert await exits(control) == IDS
    assert runner.epochs() == before
    told = await events(control, "proxy.outage", "proxy.bad", "session.moved")
    assert [(each["type"], each["failing"], each["healthy"]) for each in told] == [
        ("proxy.outage", f"{len(dead)}", "3")
    ]
    alert = alert_of(told[0])
    assert alert is not None
    assert "check this server’s own internet connection" in text_of([alert], "en")
    check.dead.clear()
    for _ in range(2):
        await check_due_proxies(control.context, control.proxy_health)
    assert len(await events(control, "proxy.outage_ended")) == 1


async def test_the_moment_our_connection_comes_back_condemns_nobody(control: Orchestrator, check: FakeCheck) -> None:
    check.dead.update(PROXIES)
    await check_due_proxies(control.context, control.proxy_health)
    check.dead.difference_update(PROXIES[1:])  # some checks of the next round pass already
    await check_due_proxies(control.context, control.proxy_health)
    assert await exits(control) == IDS


async def test_a_proxy_that_stays_dead_after_our_outage_is_left_and_the_cause_is_told(
    control: Orchestrator, check: FakeCheck
) -> None:
    check.dead.update(PROXIES)
    for _ in range(3):
        await check_due_proxies(control.context, control.proxy_health)
    check.dead.difference_update(PROXIES[1:])
    for _ in range(4):
        await check_due_proxies(control.context, control.proxy_health)
    assert (await exits(control))[0] in IDS[1:]
    bad, moved = await events(control, "proxy.bad", "session.moved")
    alerts = [alert for alert in (alert_of(bad), alert_of(moved)) if alert is not None]
    told = text_of(alerts, "en")
    assert "no answer within 5 s" in told
    assert "Its proxy failed two of our checks in a row." in told


# -- complaints of workers --------------------------------------------------------------------------------------------


async def test_complaints_from_before_the_servers_start_condemn_nothing(
    control: Orchestrator, teller: Teller, runner: FakeRunner
) -> None:
    before, ago = runner.epochs(), round(time.time() * 1000) - 60_000
    for name in ("s1", "s2", "s1", "s2"):
        data = {"error": "refused", "stage": "connect"}
        assert (await teller.tell(name, "PROXY_ERROR", data, timestamp=ago)).status_code == 200
        await judged(control)
    assert await exits(control) == IDS
    assert runner.epochs() == before  # nor is a worker restarted that has long reconnected


async def test_a_restarted_server_does_not_count_what_was_complained_about_before(
    control: Orchestrator, context: Context, runner: FakeRunner
) -> None:
    complained_at = round(time.time() * 1000) - 1
    successor = await another(context, runner)
    for _ in range(2):
        await successor.proxy_health.report_failure(IDS[0], "s1", 1, complained_at)
    assert await exits(control) == IDS
    assert await control.context.redis.hget(keys.proxy(IDS[0]), "strikes") == "[]"


async def test_a_worker_that_began_to_dial_while_we_were_away_is_not_restarted_for_its_complaint(
    control: Orchestrator, teller: Teller, runner: FakeRunner
) -> None:
    before = runner.epochs()
    await blame(teller, "s1")  # a moment after the server's start: it has waited for a dead line since before
    await judged(control)
    assert await exits(control) == IDS
    assert runner.epochs() == before
    assert await control.context.redis.hget(keys.proxy(IDS[0]), "strikes") == "[]"


@pytest.mark.usefixtures("present")
async def test_what_workers_met_during_our_own_outage_is_no_strike_after_it(
    control: Orchestrator, check: FakeCheck, teller: Teller, runner: FakeRunner
) -> None:
    before = runner.epochs()
    check.dead.update(PROXIES)
    for _ in range(2):
        await check_due_proxies(control.context, control.proxy_health)
    assert await events(control, "proxy.outage")
    control.proxy_health._present_since_ms -= 30_000  # it lasts
    check.dead.clear()
    await check_due_proxies(control.context, control.proxy_health)
    await blame(teller, "s1")
    await judged(control)
    assert await exits(control) == IDS
    assert runner.epochs() == before


async def test_a_doubtful_complaint_restarts_nobody_although_there_was_a_strike_before(
    control: Orchestrator, teller: Teller, runner: FakeRunner
) -> None:
    before = runner.epochs()
    restarted_at = await control.context.scripts.now_ms() + 1  # and nothing has come through the proxy since
    await control.context.redis.hset(keys.session("s1"), "started_at", restarted_at)
    await complain_long_ago(control, IDS[0], 60_000)
    await blame(teller, "s1")  # a moment after the server's start
    await judged(control)
    assert await exits(control) == IDS
    assert runner.epochs() == before


@pytest.mark.usefixtures("present")
async def test_a_complaint_about_a_proxy_that_has_passed_a_check_since_is_no_strike(
    control: Orchestrator, teller: Teller
) -> None:
    await blame(teller, "s1")
    await judged(control)
    await drive(control)  # restarted for it, and nothing has come through the proxy since
    complained_at = round(time.time() * 1000)
    await control.proxy_health.check(IDS[0])
    await complain_long_ago(control, IDS[0], 60_000)
    data = {"error": "refused", "stage": "connect"}
    await teller.tell("s1", "PROXY_ERROR", data, timestamp=complained_at)
    await judged(control)
    assert await exits(control) == IDS


@pytest.mark.usefixtures("present")
async def test_an_engine_that_is_away_twice_within_minutes_changes_no_exit(
    control: Orchestrator, teller: Teller
) -> None:
    for name in SESSIONS:
        await blame(teller, name)
        await judged(control)
    for proxy_id in IDS:
        await complain_long_ago(control, proxy_id, 120_000)
    await drive(control)
    for name in SESSIONS:
        await blame(teller, name)
        await judged(control)
    assert await exits(control) == IDS


@pytest.mark.usefixtures("present")
async def test_a_blip_after_which_the_phone_was_online_again_is_not_held_against_its_proxy(
    control: Orchestrator, teller: Teller
) -> None:
    for _ in range(3):
        await blame(teller, "s1")
        await judged(control)
        await drive(control)
        await complain_long_ago(control, IDS[0], 60_000)
        await teller.connected("s1", "972500000000")
    assert await exits(control) == IDS


@pytest.mark.usefixtures("present")
async def test_a_proxy_that_passes_checks_but_carries_nothing_is_left_and_the_cause_is_told(
    control: Orchestrator, teller: Teller
) -> None:
    await blame(teller, "s1")
    await judged(control)
    await drive(control)
    await complain_long_ago(control, IDS[0], 60_000)
    await blame(teller, "s1")
    await judged(control)
    assert (await exits(control))[0] in IDS[1:]
    moved = alert_of((await events(control, "session.moved"))[0])
    assert moved is not None
    assert "passed our checks, but sessions could not connect through it" in text_of([moved], "en")
