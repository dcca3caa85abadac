"""A hijacked worker cannot become another phone: its CONNECTED, signed with its own secret, moves nothing."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.orchestrator.fakes import FakeRunner, Teller, drive
from tests.orchestrator.session_steps import (
    OTHER,
    PHONE,
    THIRD,
    asked,
    code_of,
    confirmed,
    linked,
    now,
    relinked,
    started,
    with_credentials,
)
from wa_orchestrator.domain.access.permissions import Only, Scope
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.sessions import credential_files
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.access import api_keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import admission, queues
from wa_orchestrator.store.messages.message_keys import Place
from wa_orchestrator.store.sessions import commands


async def _queued(scripts: Scripts, phone: str, session: str) -> str:
    name = "m_00000000000000000a"
    message = admission.NewMessage(name, "3EB000000000000000000A", phone, session, "97251")
    assert isinstance(await admission.accept(scripts, message, admission.Room(9, 9, 0)), admission.Accepted)
    assert await queues.route(scripts, Place(name, phone, session), to="97251") == queues.Queued()
    return name


async def _state(control: Orchestrator) -> dict[str, Any]:
    """All that is the victim's: its record, its binding, its slots, its queue."""
    redis, victim = control.context.redis, await now(control.context, "victim")
    return {
        "record": await redis.hgetall(keys.session("victim")),
        "sticky": await redis.get(keys.sticky(OTHER)),
        "history": await redis.xrange(keys.sticky_history(OTHER)),
        "sessions": await redis.smembers(keys.sessions_of_phone(OTHER)),
        "slots": await redis.smembers(keys.sessions_of_proxy(victim.proxy)),
        "queue": await redis.zrange(keys.queue(OTHER), 0, -1),
    }


@pytest.fixture
async def thief(control: Orchestrator, api: httpx.AsyncClient, teller: Teller) -> str:
    """A linked session whose worker was taken over; `victim` is another one, on another proxy."""
    await linked(control, api, teller, "victim", OTHER)
    await linked(control, api, teller, "thief", PHONE)
    return "thief"


async def test_a_linked_session_that_reports_the_phone_of_another_gets_nothing_of_it(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner, thief: str
) -> None:
    await _queued(control.context.scripts, OTHER, "victim")
    before, own = await _state(control), await now(control.context, thief)
    assert before["slots"] == {"victim"}
    starts = len(runner.started)
    assert (await teller.connected(thief, OTHER)).status_code == 200
    after = await now(control.context, thief)
    assert (after.status, after.reason, after.reported_phone) == ("failed", "PHONE_CHANGED", OTHER)
    assert (after.phone, after.proxy) == (own.phone, own.proxy)
    assert await _state(control) == before
    await drive(control)
    assert (thief in runner.epochs(), len(runner.started)) == (False, starts)  # no worker gets the exit's password
    assert (await now(control.context, "victim")).status == "connected"
    shown = (await api.get(f"/api/sessions/{thief}/status")).json()
    assert (shown["needsPerson"], shown["reportedPhone"]) == (True, OTHER)


@pytest.mark.parametrize("phone", [OTHER, THIRD])
@pytest.mark.parametrize("prelude", ["code", "logout and code", "lost and code", "pairing"])
async def test_no_other_event_of_the_worker_opens_the_way(
    control: Orchestrator, teller: Teller, thief: str, phone: str, prelude: str
) -> None:
    if "logout" in prelude:
        await teller.disconnected(thief, 401)
    if "lost" in prelude:
        await teller.disconnected(thief, 428)
    if "code" in prelude:
        await teller.qr(thief)
    if "pairing" in prelude:
        await teller.tell(thief, "PAIRING_CODE", {"code": "ABCD1234"})
    assert (await teller.connected(thief, phone)).status_code == 200
    after = await now(control.context, thief)
    assert (after.phone, after.status == "connected") == (PHONE, False)
    assert thief not in await control.context.redis.smembers(keys.sessions_of_phone(phone))


async def test_having_been_caught_it_does_not_talk_its_way_back(
    control: Orchestrator, teller: Teller, thief: str
) -> None:
    await teller.connected(thief, OTHER)
    for phone in (PHONE, THIRD, OTHER):
        assert (await teller.connected(thief, phone)).status_code == 200
    await teller.disconnected(thief, 401)
    await teller.qr(thief)
    after = await now(control.context, thief)
    assert (after.status, after.reason, after.phone, after.reported_phone) == ("failed", "PHONE_CHANGED", PHONE, OTHER)


async def test_its_own_messages_wait_and_no_other_session_gets_them(
    control: Orchestrator, teller: Teller, thief: str
) -> None:
    message = await _queued(control.context.scripts, PHONE, thief)
    await teller.connected(thief, OTHER)
    await drive(control)
    assert await control.context.redis.zrange(keys.queue(PHONE), 0, -1) == [message]
    stored = await records.message(control.context.scripts, message)
    assert stored is not None
    assert (stored.session, stored.phone, stored.status) == (thief, PHONE, "queued")


async def test_an_alert_says_it(control: Orchestrator, teller: Teller, thief: str) -> None:
    await teller.connected(thief, OTHER)
    entries: Any = await control.context.redis.xrevrange(keys.EVENTS, count=5)
    told = [fields for _, fields in entries if fields["type"] == "session.failed"]
    assert [(each["session"], each["reason"]) for each in told] == [(thief, "PHONE_CHANGED")]


async def test_a_person_who_confirms_the_phone_lets_the_session_have_it_and_the_audit_log_says_who(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, thief: str
) -> None:
    old = await now(control.context, thief)
    await confirmed(control, api, teller, thief, OTHER)
    started_again = await now(control.context, thief)
    assert (started_again.epoch > old.epoch, started_again.phone) == (True, PHONE)
    await teller.connected(thief, OTHER)
    await drive(control)
    await teller.connected(thief, OTHER)
    after = await now(control.context, thief)
    assert (after.status, after.phone, after.named_phone, after.reported_phone) == ("connected", OTHER, "", "")
    assert after.proxy == (await now(control.context, "victim")).proxy
    entry = (await api.get("/api/v1/audit")).json()["entries"][0]
    assert (entry["action"], entry["target"]) == ("session.confirm_phone", thief)


async def test_only_the_phone_that_was_reported_can_be_confirmed_and_only_while_it_waits(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, thief: str
) -> None:
    async def confirm(phone: str) -> httpx.Response:
        return await api.post(f"/api/sessions/{thief}/confirm-phone", json={"phone": phone})

    early = await confirm(OTHER)
    assert (early.status_code, await code_of(early)) == (409, "NOTHING_TO_CONFIRM")
    await teller.connected(thief, OTHER)
    assert (await confirm(THIRD)).status_code == 409
    assert (await confirm(OTHER)).status_code == 200
    assert (await confirm(OTHER)).status_code == 409


async def test_started_without_a_confirmation_it_is_what_it_was_before(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, thief: str
) -> None:
    await teller.connected(thief, OTHER)
    await drive(control)
    assert (await api.post(f"/api/sessions/{thief}/start")).status_code == 200
    await drive(control)
    await teller.connected(thief, PHONE)
    after = await now(control.context, thief)
    assert (after.status, after.phone) == ("connected", PHONE)


# -- every legal way stays open ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("phone", [PHONE, THIRD])
async def test_after_a_logout_a_scan_links_the_same_phone_or_another(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, phone: str
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await relinked(control, api, teller, "s1")
    await teller.connected("s1", phone)
    after = await now(control.context, "s1")
    assert (after.status, after.phone, after.code_at) == ("connected", phone, 0)


async def test_a_second_device_links_at_once_if_it_was_provisioned_for_the_phone(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "first", PHONE)
    await started(control, api, "second", phone=PHONE)
    await teller.qr("second")
    await teller.connected("second", PHONE)
    assert (await now(control.context, "second")).status == "connected"


async def test_a_scan_by_the_phone_of_another_session_waits_for_a_person(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "first", PHONE)
    await started(control, api, "second")
    await teller.qr("second")
    await teller.connected("second", PHONE)
    assert (await now(control.context, "second")).reason == "PHONE_CHANGED"


async def test_a_restart_with_stored_credentials_needs_nobody(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await api.post("/api/sessions/s1/restart")
    await drive(control)
    await teller.connected("s1", PHONE)
    assert (await now(control.context, "s1")).status == "connected"


async def test_an_imported_directory_links_without_a_code_if_nobody_has_its_phone(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await started(control, api, "imported")
    await teller.connected("imported", PHONE)
    assert (await now(control.context, "imported")).status == "connected"


async def test_without_a_code_nobody_gets_the_proxy_of_a_phone_whose_session_was_deleted(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await started(control, api, "imported")
    await control.context.redis.set(keys.sticky(PHONE), "p_another")
    await teller.connected("imported", PHONE)
    assert (await now(control.context, "imported")).reason == "PHONE_CHANGED"


async def test_credentials_from_the_trash_bring_their_phone_back(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    with_credentials(control, "of the first phone")
    await relinked(control, api, teller, "s1")
    await teller.connected("s1", OTHER)
    assert [each.phone for each in credential_files.list_trash(control.context.settings)] == [PHONE]
    assert (await api.post("/api/sessions/s1/restore-credentials")).status_code == 200
    await drive(control)
    await teller.connected("s1", PHONE)
    after = await now(control.context, "s1")
    assert (after.status, after.phone) == ("connected", PHONE)


async def test_a_pairing_code_that_a_person_requested_names_its_phone(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wa_orchestrator.orchestrator.workers import command_calls

    async def answers(*_: object, **__: object) -> dict[str, bool]:
        await teller.tell("second", "PAIRING_CODE", {"code": "ABCD1234"})
        return {"ok": True}

    monkeypatch.setattr(command_calls, "call", answers)
    await linked(control, api, teller, "first", PHONE)
    await started(control, api, "second")
    answer = await api.post("/api/sessions/second/pairing-code", json={"phone": PHONE})
    assert answer.json()["code"] == "ABCD1234"
    await teller.connected("second", PHONE)
    assert (await now(control.context, "second")).reason == "MOVING_TO_STICKY_PROXY"


async def test_a_customer_cannot_name_the_phone_of_another_for_a_session_of_his(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    """A pairing code names the phone that a session may have, and his worker is taken over: nothing of it is his."""
    await linked(control, api, teller, "victim", OTHER)
    await started(control, api, "thief")
    await teller.qr("thief")
    before = await _state(control)
    reach = Only(sessions=frozenset({"thief"}))
    _, key = await api_keys.create(control.context.scripts, "customer", [Scope.OPERATE], reach=reach)
    code = asyncio.create_task(
        api.post("/api/sessions/thief/pairing-code", json={"phone": OTHER}, headers={"X-API-Key": key})
    )
    command = await asked(control, "thief")
    await commands.put_result(control.context.scripts, "thief", str(command["id"]), {"ok": True})
    code.cancel()
    await asyncio.gather(code, return_exceptions=True)
    await teller.connected("thief", OTHER)
    await drive(control)
    thief = await now(control.context, "thief")
    assert (thief.status, thief.reason, thief.phone) == ("failed", "PHONE_CHANGED", "")
    assert await _state(control) == before
