"""Phone, proxy and session are tied together by the scan, and stay so."""

from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest
from structlog.testing import CapturingLogger

from tests.orchestrator.conftest import PROXIES
from tests.orchestrator.fakes import FakeRunner, Teller, drive
from tests.orchestrator.session_steps import (
    GIVEN,
    OTHER,
    PHONE,
    THIRD,
    code_of,
    condemned,
    confirmed,
    delete,
    fill,
    linked,
    now,
    provision,
    relinked,
    started,
)
from wa_orchestrator.domain.messages.sender_policy import Pin
from wa_orchestrator.domain.proxies import proxy_url
from wa_orchestrator.domain.sessions.session import Reason
from wa_orchestrator.orchestrator.proxies import placement
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.sessions import phone_binding, transitions
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import admission, queues
from wa_orchestrator.store.messages.message_keys import Place
from wa_orchestrator.store.records import MessageChanges


async def test_a_scan_ties_phone_proxy_and_session_together_and_ends_the_temporary_binding(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    session = await started(control, api)
    redis = control.context.redis
    assert await redis.get(keys.temporary_binding("s1")) == session.proxy
    assert (await teller.connected("s1", PHONE)).status_code == 200
    assert await redis.get(keys.temporary_binding("s1")) is None
    assert await redis.get(keys.sticky(PHONE)) == session.proxy
    assert await redis.smembers(keys.sessions_of_phone(PHONE)) == {"s1"}
    assert await redis.smembers(keys.SESSIONS_ACTIVE) == {"s1"}
    shown = (await api.get("/api/sessions/s1/status")).json()
    assert (shown["status"], shown["phone"], shown["reason"], shown["trust"]) == ("connected", PHONE, None, "cold")


async def test_a_scan_is_a_line_of_the_log_without_the_proxys_password(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = CapturingLogger()
    monkeypatch.setattr(phone_binding, "log", log)
    await started(control, api)
    await teller.connected("s1", PHONE)
    (line,) = [call for call in log.calls if call.args == ("session.connected",)]
    assert (line.kwargs["session"], line.kwargs["phone"]) == ("s1", PHONE), "rendered by its last four digits"
    assert "canary-password" not in str(log.calls)


async def test_what_is_tied_to_a_session_goes_along_to_another_phone_also_when_the_server_dies_in_between(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await linked(control, api, teller, "sibling", PHONE)
    scripts, redis = control.context.scripts, control.context.redis
    tied = [await _queued(scripts, n, session, "session") for n, session in enumerate(("sibling", "s1", "s1"))]
    free = await _queued(scripts, 9, "s1", "")
    await relinked(control, api, teller, "s1")
    with monkeypatch.context() as dying:
        dying.setattr(queues, "reroute", AsyncMock(side_effect=ConnectionError))
        assert (await teller.connected("s1", OTHER)).status_code == 500
    assert (await now(control.context, "s1")).phone == OTHER
    assert (await teller.connected("s1", OTHER)).status_code == 200
    phones = [await redis.hget(keys.message(each), "phone") for each in (*tied, free)]
    assert phones == [PHONE, OTHER, OTHER, PHONE]
    assert await redis.smembers(keys.sessions_of_phone(PHONE)) == {"sibling"}
    assert not (await now(control.context, "s1")).left_phone


async def test_a_session_that_left_two_phones_while_the_server_died_is_counted_at_neither_and_leaves_nothing_behind(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    scripts, redis = control.context.scripts, control.context.redis
    tied = await _queued(scripts, 1, "s1", "session")
    await relinked(control, api, teller, "s1")
    with monkeypatch.context() as dying:
        dying.setattr(queues, "reroute", AsyncMock(side_effect=ConnectionError))
        assert (await teller.connected("s1", OTHER)).status_code == 500
    await redis.delete(keys.DUE)
    await relinked(control, api, teller, "s1")
    assert (await teller.connected("s1", THIRD)).status_code == 200
    counted = {each: await redis.smembers(keys.sessions_of_phone(each)) for each in (PHONE, OTHER, THIRD)}
    assert counted == {PHONE: set(), OTHER: set(), THIRD: {"s1"}}
    assert await redis.hget(keys.message(tied), "phone") == THIRD
    assert {PHONE, OTHER} <= set(await redis.zrange(keys.DUE, 0, -1))  # who is not tied may find another sender there
    assert not (await now(control.context, "s1")).left_phone


async def _queued(scripts: Scripts, number: int, session: str, pinned: str) -> str:
    """A message that waits in its phone's queue; its id."""
    fields = MessageChanges(pinned=Pin(pinned))
    name = f"m_{number:018x}"
    message = admission.NewMessage(name, f"3EB0{number:018X}", PHONE, session, "97251", fields=fields)
    assert isinstance(await admission.accept(scripts, message, admission.Room(9, 9, 0)), admission.Accepted)
    assert await queues.route(scripts, Place(name, PHONE, session), to="97251") == queues.Queued()
    return name


async def test_a_phone_keeps_its_proxy_after_its_session_is_deleted(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    own = (await now(control.context, "s1")).proxy
    await delete(control, api, "s1")
    for filler in range(2):
        await provision(
            api, sessionId=f"filler{filler}", proxy=next(url for url in PROXIES if proxy_url.proxy_id(url) == own)
        )
    await provision(api, sessionId="again", phone=PHONE)
    assert (await now(control.context, "again")).proxy == own


async def test_forget_lets_the_phone_start_anew(control: Orchestrator, api: httpx.AsyncClient, teller: Teller) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await delete(control, api, "s1", forget=True)
    assert await control.context.redis.get(keys.sticky(PHONE)) is None


async def test_a_full_proxy_of_ones_own_is_never_quietly_exchanged_for_another(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    own = (await now(control.context, "s1")).proxy
    await fill(api, next(url for url in PROXIES if proxy_url.proxy_id(url) == own))
    answer = await provision(api, phone=PHONE)
    assert (answer.status_code, await code_of(answer)) == (409, "STICKY_PROXY_FULL")


async def test_a_phone_with_a_proxy_of_its_own_moves_the_session_there_by_one_restart(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "first", PHONE)
    own = (await now(control.context, "first")).proxy
    second = await started(control, api, "second")
    assert second.proxy != own
    await confirmed(control, api, teller, "second", PHONE)
    await teller.connected("second", PHONE)
    moving = await now(control.context, "second")
    assert (moving.proxy, moving.reason, moving.status != "connected") == (own, "MOVING_TO_STICKY_PROXY", True)
    left = keys.sessions_of_proxy(second.proxy)
    assert await control.context.redis.sismember(left, "second")  # until its old worker has ended
    starts = len(runner.started)
    await drive(control)
    assert not await control.context.redis.sismember(left, "second")
    assert len(runner.started) == starts + 1
    await teller.connected("second", PHONE)
    after = await now(control.context, "second")
    assert (after.status, after.proxy) == ("connected", own)
    assert await control.context.redis.get(keys.sticky(PHONE)) == own


async def test_a_move_to_the_phones_own_proxy_is_finished_although_the_server_died_within_it(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await linked(control, api, teller, "first", PHONE)
    await started(control, api, "second")
    await confirmed(control, api, teller, "second", PHONE)

    async def dies(*_: object) -> None:
        raise RuntimeError("dies")

    monkeypatch.setattr(transitions, "request_restart", dies)
    assert (await teller.connected("second", PHONE)).status_code == 500
    moving = await now(control.context, "second")
    assert moving.proxy == (await now(control.context, "first")).proxy
    assert transitions.restart_pending(moving)


async def test_a_given_proxy_wins_over_the_phones_own_and_takes_its_other_sessions_along(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "first", PHONE)
    await linked(control, api, teller, "second", PHONE, proxy=GIVEN)
    given = proxy_url.proxy_id(GIVEN)
    assert await control.context.redis.get(keys.sticky(PHONE)) == given
    assert {(await now(control.context, each)).proxy for each in ("first", "second")} == {given}
    history: Any = await control.context.redis.xrange(keys.sticky_history(PHONE))
    assert [fields["reason"] for _, fields in history] == ["first", "given"]


@pytest.mark.parametrize("trouble", ["bad", "full"])
async def test_the_binding_moves_at_linking_only_if_the_own_proxy_is_bad_or_full_and_says_so(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, check: Any, trouble: str
) -> None:
    await linked(control, api, teller, "first", PHONE)
    own = (await now(control.context, "first")).proxy
    await delete(control, api, "first")
    url = next(url for url in PROXIES if proxy_url.proxy_id(url) == own)
    if trouble == "bad":
        check.dead.add(url)
        await condemned(control, own)
    else:
        await fill(api, url)
    second = await started(control, api, "second")
    await teller.qr("second")
    await teller.connected("second", PHONE)
    history: Any = await control.context.redis.xrange(keys.sticky_history(PHONE))
    assert [fields["reason"] for _, fields in history] == ["first", f"sticky_{trouble}"]
    assert await control.context.redis.get(keys.sticky(PHONE)) == second.proxy != own


async def test_where_the_phones_proxy_is_full_at_linking_its_other_sessions_follow_to_the_new_one(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "first", PHONE)
    own = (await now(control.context, "first")).proxy
    await fill(api, next(url for url in PROXIES if proxy_url.proxy_id(url) == own))
    second = await started(control, api, "second")
    await confirmed(control, api, teller, "second", PHONE)
    await teller.connected("second", PHONE)
    first = await now(control.context, "first")
    assert (first.proxy, first.reason) == (second.proxy, Reason.MOVING_TO_STICKY_PROXY)
    assert second.proxy != own


async def _full_but_for(control: Orchestrator, api: httpx.AsyncClient, teller: Teller, devices: int) -> str:
    """A phone with so many devices, whose proxy is full; its id."""
    for number in range(devices):
        await linked(control, api, teller, f"device{number}", PHONE)
    own = (await now(control.context, "device0")).proxy
    await fill(api, next(url for url in PROXIES if proxy_url.proxy_id(url) == own))
    return own


async def _exits(control: Orchestrator) -> set[str]:
    return {str(each.proxy) for each in await records.sessions_of_phone(control.context.scripts, PHONE)} - {""}


async def test_where_neither_proxy_has_room_for_all_devices_of_a_phone_the_new_one_waits_for_the_phones_own(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    own = await _full_but_for(control, api, teller, 2)
    elsewhere = (await started(control, api, "new")).proxy
    await fill(api, next(url for url in PROXIES if proxy_url.proxy_id(url) == elsewhere))
    await confirmed(control, api, teller, "new", PHONE)
    assert (await teller.connected("new", PHONE)).status_code == 200
    await drive(control)
    new = await now(control.context, "new")
    assert (new.proxy, new.phone, new.reason) == ("", PHONE, Reason.WAITING_FOR_PROXY)
    assert await _exits(control) == {own} == {await control.context.redis.get(keys.sticky(PHONE))}
    filler = next(
        each for each in await records.sessions(control.context.scripts) if each.proxy == own and not each.phone
    )
    await delete(control, api, filler.id)
    await placement.assign_waiting(control.context)
    await drive(control)
    await teller.connected("new", PHONE)
    assert (await now(control.context, "new")).status == "connected"
    assert await _exits(control) == {own}


async def test_a_given_proxy_without_room_for_all_devices_of_its_phone_leaves_the_phone_where_it_is(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    for number in range(2):
        await linked(control, api, teller, f"device{number}", PHONE)
    own = (await now(control.context, "device0")).proxy
    await started(control, api, "new", proxy=GIVEN)
    await fill(api, GIVEN)
    await confirmed(control, api, teller, "new", PHONE)
    await teller.connected("new", PHONE)
    new = await now(control.context, "new")
    assert (new.proxy, new.reason, new.proxy_given) == (own, Reason.MOVING_TO_STICKY_PROXY, "")
    assert await _exits(control) == {own}


async def test_the_other_devices_follow_to_a_given_proxy_although_the_server_died_before_it_had_moved_them(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await linked(control, api, teller, "first", PHONE)
    await started(control, api, "second", phone=PHONE, proxy=GIVEN)
    await teller.qr("second")
    with monkeypatch.context() as dying:
        dying.setattr(placement, "move_phone_sessions", AsyncMock(side_effect=ConnectionError))
        assert (await teller.connected("second", PHONE)).status_code == 500
    assert len(await _exits(control)) == 2
    assert (await teller.connected("second", PHONE)).status_code == 200  # the worker says it until it is accepted
    assert await _exits(control) == {proxy_url.proxy_id(GIVEN)}


async def test_no_device_follows_to_a_proxy_that_has_become_bad_meanwhile(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await linked(control, api, teller, "first", PHONE)
    own = (await now(control.context, "first")).proxy
    await started(control, api, "second", phone=PHONE, proxy=GIVEN)
    await teller.qr("second")
    with monkeypatch.context() as dying:
        dying.setattr(placement, "move_phone_sessions", AsyncMock(side_effect=ConnectionError))
        assert (await teller.connected("second", PHONE)).status_code == 500
    await control.context.redis.hset(keys.proxy(proxy_url.proxy_id(GIVEN)), "status", "BAD")
    assert (await teller.connected("second", PHONE)).status_code == 200
    first = await now(control.context, "first")
    assert (first.proxy, first.status) == (own, "connected")


async def test_a_device_that_nobody_has_scanned_keeps_the_proxy_it_was_given_when_its_phone_is_bound_to_another(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "first", PHONE, proxy=PROXIES[0])
    await started(control, api, "unscanned", phone=PHONE, proxy=GIVEN)
    await linked(control, api, teller, "second", PHONE, proxy=PROXIES[1])
    assert (await now(control.context, "first")).proxy == proxy_url.proxy_id(PROXIES[1])
    unscanned = await now(control.context, "unscanned")
    assert (unscanned.proxy, unscanned.proxy_given) == (proxy_url.proxy_id(GIVEN), "given")
    await teller.qr("unscanned")
    await teller.connected("unscanned", PHONE)
    assert await _exits(control) == {proxy_url.proxy_id(GIVEN)}


async def test_a_device_too_many_for_its_phone_is_unlinked_again(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    for number in range(4):
        await linked(control, api, teller, f"s{number}", PHONE)
    await started(control, api, "fifth")
    await confirmed(control, api, teller, "fifth", PHONE)
    await teller.connected("fifth", PHONE)
    assert (await now(control.context, "fifth")).status != "connected"
    commands = await control.context.redis.lrange(keys.commands("fifth"), 0, -1)
    assert len(commands) == 1
    assert '"logout"' in commands[0]
    history = (await api.get("/api/sessions/fifth/history")).json()["events"]
    assert history[0]["reason"] == "PHONE_FULL"
