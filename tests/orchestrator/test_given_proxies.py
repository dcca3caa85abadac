"""Proxies that an operator gives: checked before a session is made, and never exchanged before the scan."""

import asyncio
from typing import Any

import httpx

from tests.orchestrator.conftest import PROXIES
from tests.orchestrator.fakes import FakeCheck, FakeRunner, Teller, drive, part
from tests.orchestrator.session_steps import GIVEN, PHONE, code_of, confirmed, linked, now, provision, started
from wa_orchestrator.domain.proxies import proxy_url
from wa_orchestrator.domain.sessions.session import Reason, State
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.workers.reconciler import Reconciler
from wa_orchestrator.store import keys

GIVEN_ID = proxy_url.proxy_id(GIVEN)


async def _burn(control: Orchestrator, check: FakeCheck, url: str) -> None:
    """Let a proxy die, and the server notice."""
    check.dead.add(url)
    for _ in range(3):
        await control.proxy_health.check(proxy_url.proxy_id(url))
    await drive(control)


async def test_a_dead_proxy_is_refused_before_a_session_is_made_with_it(
    api: httpx.AsyncClient, check: FakeCheck
) -> None:
    check.dead.add(GIVEN)
    answer = await provision(api, proxyOverride=GIVEN)
    assert (answer.status_code, await code_of(answer)) == (409, "PROXY_UNREACHABLE")
    assert (await api.get("/api/sessions")).json()["sessions"] == []
    assert len((await api.get("/api/v1/proxies")).json()["proxies"]) == len(PROXIES)


async def test_a_proxy_of_the_pool_that_died_just_now_is_refused_too(api: httpx.AsyncClient, check: FakeCheck) -> None:
    check.dead.add(PROXIES[0])
    answer = await provision(api, proxy=PROXIES[0])
    assert (answer.status_code, await code_of(answer)) == (409, "PROXY_UNREACHABLE")


async def test_before_the_scan_a_session_waits_for_its_given_proxy_and_starts_when_that_works_again(
    control: Orchestrator, api: httpx.AsyncClient, runner: FakeRunner, check: FakeCheck
) -> None:
    await started(control, api, "s1", proxy=GIVEN)
    await _burn(control, check, GIVEN)
    waiting = await now(control.context, "s1")
    assert (waiting.proxy, waiting.status, waiting.reason) == (GIVEN_ID, State.PENDING, Reason.GIVEN_PROXY_BAD)
    assert not runner.epochs()
    check.dead.clear()
    await api.post(f"/api/v1/proxies/{GIVEN_ID}/reinstate")
    await part(control, Reconciler).step()
    await drive(control)
    assert list(runner.epochs()) == ["s1"]
    assert runner.started[-1].secrets["PROXY_URL"] == GIVEN


async def test_a_given_proxy_that_the_operator_drains_leaves_the_phones_binding_alone(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, check: FakeCheck
) -> None:
    await linked(control, api, teller, "works", PHONE)
    own = (await now(control.context, "works")).proxy
    await started(control, api, "s1", proxy=GIVEN)
    request = asyncio.create_task(api.delete(f"/api/v1/proxies/{GIVEN_ID}", params={"drain": True}))
    while not request.done():
        await drive(control)
        await asyncio.sleep(0)
    assert (await request).status_code == 200
    moved = await now(control.context, "s1")
    assert (moved.proxy != GIVEN_ID, moved.proxy_given) == (True, "")
    await confirmed(control, api, teller, "s1", PHONE)
    await teller.connected("s1", PHONE)
    await drive(control)
    assert await control.context.redis.get(keys.sticky(PHONE)) == own
    assert {(await now(control.context, each)).proxy for each in ("works", "s1")} == {own}


async def test_a_session_that_follows_its_phone_to_a_given_proxy_is_not_told_that_its_own_failed(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "first", PHONE)
    await started(control, api, "second", proxy=GIVEN)
    await confirmed(control, api, teller, "second", PHONE)
    await teller.connected("second", PHONE)
    first = await now(control.context, "first")
    assert (first.proxy, first.reason) == (GIVEN_ID, Reason.MOVING_TO_STICKY_PROXY)
    events: list[dict[str, Any]] = (await api.get("/api/sessions/first/history")).json()["events"]
    assert not {"PROXY_FAILOVER", "CHECK_FAILED", "PROXY_FAILED"} & {str(each.get("reason")) for each in events}
