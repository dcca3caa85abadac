"""Slots of sessions that cannot use them: they give way to linked sessions that wait, and get one again later."""

import httpx

from tests.orchestrator.fakes import FakeCheck, FakeRunner, Teller, drive, part
from tests.orchestrator.session_steps import GIVEN, IDS, OTHER, PHONE, condemned, delete, fill, linked, now, started
from tests.orchestrator.test_proxies import url_of
from wa_orchestrator.domain.sessions.session import Reason, State
from wa_orchestrator.orchestrator.proxies import placement
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.workers.reconciler import Reconciler
from wa_orchestrator.orchestrator.workers.watchdog import ExitWatcher
from wa_orchestrator.store import keys, records


async def _fill_pool(control: Orchestrator, api: httpx.AsyncClient) -> None:
    """Take every slot with sessions that nobody scans."""
    while (await api.post("/api/sessions/provision", json={})).status_code == 201:
        pass
    await drive(control)


async def _lose_proxy(control: Orchestrator, check: FakeCheck, session_id: str) -> str:
    """Let the proxy of a session die; return it."""
    proxy = (await now(control.context, session_id)).proxy
    check.dead.add(url_of(proxy))
    await condemned(control, proxy)
    await drive(control)
    return proxy


async def _settle(control: Orchestrator) -> None:
    """Let slots be given up, freed and assigned."""
    for _ in range(3):
        await placement.assign_waiting(control.context)
        await drive(control)
        await part(control, Reconciler).step()
        await drive(control)


async def _loads(control: Orchestrator) -> dict[str, int]:
    return {each.id: len(each.sessions) for each in await records.proxies(control.context.scripts)}


async def _ban(control: Orchestrator, teller: Teller, runner: FakeRunner, session_id: str) -> None:
    await teller.disconnected(session_id, 403)
    runner.die(session_id)
    await part(control, ExitWatcher).step()


async def test_a_session_that_nobody_scanned_gives_its_slot_to_a_linked_one_and_waits_itself(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner, check: FakeCheck
) -> None:
    await linked(control, api, teller, "works", PHONE)
    await _fill_pool(control, api)
    dead = await _lose_proxy(control, check, "works")
    assert (await now(control.context, "works")).reason == Reason.WAITING_FOR_PROXY
    await _settle(control)
    works = await now(control.context, "works")
    assert works.proxy in set(IDS) - {dead}
    assert runner.epochs().get("works") == works.epoch
    every = await records.sessions(control.context.scripts)
    gave_way = [each for each in every if not each.proxy and not each.leaving]
    assert gave_way, "nobody gave way"
    assert {(each.status, each.reason) for each in gave_way} == {(State.PENDING, Reason.WAITING_FOR_PROXY)}
    assert all(load <= 4 for load in (await _loads(control)).values())


async def test_a_banned_session_gives_way_first_and_comes_back_on_its_own_proxy_when_it_is_started(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner, check: FakeCheck
) -> None:
    await linked(control, api, teller, "banned", OTHER)
    home = (await now(control.context, "banned")).proxy
    await linked(control, api, teller, "works", PHONE)
    await _fill_pool(control, api)
    await _ban(control, teller, runner, "banned")
    scanning = {each.id for each in await records.sessions(control.context.scripts) if each.status == State.PENDING}
    await _lose_proxy(control, check, "works")
    await _settle(control)
    assert (await now(control.context, "works")).proxy == home
    banned = await now(control.context, "banned")
    assert (banned.proxy, banned.status, banned.reason) == ("", State.FAILED, Reason.BANNED)
    assert await control.context.redis.get(keys.sticky(OTHER)) == home

    proxy_of = {each.id: each.proxy for each in await records.sessions(control.context.scripts)}
    elsewhere = next(  # a free slot, but not for a banned account
        each for each in scanning if proxy_of[each] not in ("", home)
    )
    assert (await delete(control, api, elsewhere)).status_code == 200
    await api.post("/api/sessions/banned/start", json={"confirm": "BANNED"})
    await _settle(control)
    assert (await now(control.context, "banned")).proxy == home
    assert "banned" in runner.epochs()


async def test_nobody_gives_way_to_a_session_that_is_not_linked(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, check: FakeCheck
) -> None:
    await started(control, api, "unlinked")
    await _fill_pool(control, api)
    await _lose_proxy(control, check, "unlinked")
    before = await _loads(control)
    await _settle(control)
    assert (await now(control.context, "unlinked")).proxy == ""
    assert await _loads(control) == before


async def test_a_proxy_that_an_operator_gave_is_kept_until_the_scan(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, check: FakeCheck
) -> None:
    await linked(control, api, teller, "works", PHONE)
    await fill(api, GIVEN)
    for url in map(url_of, IDS):
        await fill(api, url)
    await _lose_proxy(control, check, "works")
    await _settle(control)
    assert (await now(control.context, "works")).reason == Reason.WAITING_FOR_PROXY


async def test_a_session_that_waited_returns_to_its_phones_proxy_although_another_has_more_room(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner, check: FakeCheck
) -> None:
    await linked(control, api, teller, "banned", OTHER)
    home = (await now(control.context, "banned")).proxy
    await linked(control, api, teller, "works", PHONE)
    await _fill_pool(control, api)
    await _ban(control, teller, runner, "banned")
    await _lose_proxy(control, check, "works")
    await _settle(control)
    for each in await records.sessions(control.context.scripts):
        if each.status == State.PENDING and each.id not in {"works", "banned"}:
            await delete(control, api, each.id)
    await api.post("/api/sessions/banned/start", json={"confirm": "BANNED"})
    await _settle(control)
    assert (await now(control.context, "banned")).proxy == home


async def test_a_phone_that_is_linked_again_after_a_logout_is_new_again(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    first = (await now(control.context, "s1")).first_connected_at
    await teller.disconnected("s1", 401)
    await drive(control)
    assert (await now(control.context, "s1")).first_connected_at == 0
    await teller.connected("s1", PHONE)
    assert (await now(control.context, "s1")).first_connected_at >= first > 0
