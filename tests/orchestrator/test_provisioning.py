"""Provisioning: who gets which proxy, and what is refused and why."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.orchestrator.conftest import PROXIES
from tests.orchestrator.fakes import FakeCheck, FakeRunner, drive
from tests.orchestrator.session_steps import (
    GIVEN,
    IDS,
    PHONE,
    code_of,
    condemned,
    delete,
    fill,
    now,
    provision,
    started,
)
from wa_orchestrator.domain.proxies import proxy_url
from wa_orchestrator.orchestrator.proxies.monitor import check_due_proxies
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.workers import worker_spec
from wa_orchestrator.store import keys, proxies, records, sessions
from wa_orchestrator.store.events import event_stream


async def test_a_session_is_created_without_a_body(api: httpx.AsyncClient) -> None:
    answer = await api.post("/api/sessions/provision")
    assert (answer.status_code, answer.json()["sessionId"]) == (201, "worker_1")


async def test_a_session_is_created_in_its_own_time_zone(control: Orchestrator, api: httpx.AsyncClient) -> None:
    assert (await provision(api, sessionId="s1", timezone="Asia/Tokyo")).status_code == 201
    assert (await now(control.context, "s1")).timezone == "Asia/Tokyo"
    assert (await provision(api, sessionId="s2", timezone="Moon/Sea")).status_code == 422


async def test_a_new_session_is_pending_on_the_emptiest_proxy_and_its_password_stays_inside(
    control: Orchestrator, api: httpx.AsyncClient, runner: FakeRunner
) -> None:
    answers = [await provision(api, phone=f"+972 50-123 456{n}", label="support") for n in range(3)]
    assert [each.status_code for each in answers] == [201, 201, 201]
    assert {each.json()["sessionId"] for each in answers} == {"worker_1", "worker_2", "worker_3"}
    assert all(each.json()["status"] == "pending" for each in answers)
    assert {each.json()["proxy"] for each in answers} == {proxy_url.masked(url) for url in PROXIES}
    await drive(control)
    assert sorted(runner.epochs()) == ["worker_1", "worker_2", "worker_3"]
    assert runner.started[0].secrets["PROXY_URL"] in PROXIES
    shown = (await api.get("/api/sessions")).text + (await api.get("/api/v1/proxies")).text
    assert "canary-password" not in shown + "".join(map(str, runner.started))


async def test_a_session_that_is_deleted_while_it_is_made_is_told_as_gone(
    control: Orchestrator, api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = sessions.create

    async def create_and_lose(scripts: Any, new: sessions.NewSession, **limits: int) -> Any:
        outcome = await create(scripts, new, **limits)
        await control.context.redis.delete(keys.session(new.id))
        return outcome

    monkeypatch.setattr(sessions, "create", create_and_lose)
    answer = await provision(api, sessionId="brief")
    assert (answer.status_code, await code_of(answer)) == (409, "SESSION_GONE")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"phone": "12"}, 400, "BAD_PHONE"),
        ({"proxy": "socks5://user:pass@proxy.example.com:1080"}, 400, "BAD_PROXY_URL"),
        ({"proxyOverride": "http://proxy.example.com:1080"}, 400, "BAD_PROXY_URL"),
        ({"sessionId": "../etc"}, 422, "VALIDATION_FAILED"),
        ({"sessionId": ""}, 422, "VALIDATION_FAILED"),
        ({"pairing": "telepathy"}, 422, "VALIDATION_FAILED"),
        ({"phone": PHONE, "colour": "red"}, 422, "VALIDATION_FAILED"),
        ({"pairing": "code"}, 422, "PHONE_NEEDED_FOR_CODE"),
    ],
)
async def test_a_wrong_wish_is_refused_and_nothing_is_made(
    api: httpx.AsyncClient, body: dict[str, Any], status: int, code: str
) -> None:
    answer = await provision(api, **body)
    assert (answer.status_code, await code_of(answer)) == (status, code)
    assert (await api.get("/api/sessions")).json()["sessions"] == []
    assert len((await api.get("/api/v1/proxies")).json()["proxies"]) == 3


async def test_all_errors_of_a_request_come_at_once_with_their_paths(api: httpx.AsyncClient) -> None:
    answer = await provision(api, sessionId="a b", pairing="x", colour="red")
    assert {each["path"] for each in answer.json()["error"]["errors"]} == {"sessionId", "pairing", "colour"}


async def test_a_body_that_is_no_json_is_refused_as_such(api: httpx.AsyncClient) -> None:
    answer = await api.post("/api/sessions/provision", content=b"{", headers={"Content-Type": "application/json"})
    assert (answer.status_code, await code_of(answer)) == (400, "BAD_JSON")


async def test_a_session_that_is_made_again_gets_the_proxy_it_had(
    api: httpx.AsyncClient, control: Orchestrator
) -> None:
    await provision(api, sessionId="filler")
    first = await started(control, api, "one")
    await delete(control, api, "filler")
    await delete(control, api, "one")
    assert (await started(control, api, "one")).proxy == first.proxy != IDS[0]


async def test_a_session_that_is_made_again_is_refused_where_its_proxy_is_full(
    api: httpx.AsyncClient, control: Orchestrator
) -> None:
    first = await started(control, api, "one")
    await delete(control, api, "one")
    await fill(api, next(url for url in PROXIES if proxy_url.proxy_id(url) == first.proxy))
    answer = await provision(api, sessionId="one")
    assert (answer.status_code, await code_of(answer)) == (409, "STICKY_PROXY_FULL")


async def test_a_stopped_session_that_is_made_again_starts_on_its_proxy(
    api: httpx.AsyncClient, control: Orchestrator, runner: FakeRunner
) -> None:
    first = await started(control, api, "one")
    await api.post("/api/sessions/one/stop")
    await drive(control)
    assert not runner.epochs()
    assert (await started(control, api, "one")).proxy == first.proxy
    assert list(runner.epochs()) == ["one"]


async def test_an_id_is_given_once(api: httpx.AsyncClient) -> None:
    await provision(api, sessionId="one")
    answer = await provision(api, sessionId="one")
    assert (answer.status_code, await code_of(answer)) == (409, "SESSION_EXISTS")


async def test_a_phone_gets_no_fifth_session(api: httpx.AsyncClient) -> None:
    answers = [await provision(api, phone=PHONE) for _ in range(5)]
    assert [each.status_code for each in answers] == [201, 201, 201, 201, 409]
    assert await code_of(answers[-1]) == "PHONE_FULL"


async def test_all_sessions_of_a_phone_are_on_one_proxy_from_the_beginning(
    api: httpx.AsyncClient, control: Orchestrator
) -> None:
    await asyncio.gather(*(provision(api, sessionId=f"s{n}", phone=PHONE) for n in range(4)))
    found = await records.sessions_of_phone(control.context.scripts, PHONE)
    assert len(found) == 4
    assert len({each.proxy for each in found}) == 1


async def test_a_phone_whose_proxy_is_full_gets_no_second_one_before_it_is_linked(
    api: httpx.AsyncClient, control: Orchestrator
) -> None:
    await provision(api, sessionId="first", phone=PHONE)
    first = await records.session(control.context.scripts, "first")
    assert first is not None
    await fill(api, next(url for url in PROXIES if proxy_url.proxy_id(url) == first.proxy))
    answer = await provision(api, phone=PHONE)
    assert (answer.status_code, await code_of(answer)) == (409, "STICKY_PROXY_FULL")


async def test_a_given_proxy_must_have_room_for_the_phones_other_sessions_too(
    api: httpx.AsyncClient, control: Orchestrator
) -> None:
    for _ in range(2):
        await provision(api, phone=PHONE)
        await provision(api, proxy=GIVEN)
    answer = await provision(api, phone=PHONE, proxy=GIVEN)
    assert (answer.status_code, await code_of(answer)) == (409, "STICKY_PROXY_FULL")


async def test_a_full_pool_refuses_and_raises_the_alarm_once(api: httpx.AsyncClient, control: Orchestrator) -> None:
    await check_due_proxies(control.context, control.proxy_health)
    assert await _low_inventory_alarms(control) == 0
    answers = [await provision(api) for _ in range(13)]
    assert [each.status_code for each in answers] == [201] * 12 + [409]
    assert await code_of(answers[-1]) == "NO_PROXY_CAPACITY"
    for _ in range(3):
        await check_due_proxies(control.context, control.proxy_health)
    assert await _low_inventory_alarms(control) == 1


async def test_a_pool_that_runs_low_again_raises_the_alarm_again(api: httpx.AsyncClient, control: Orchestrator) -> None:
    for n in range(9):
        await provision(api, sessionId=f"s{n}")
    await check_due_proxies(control.context, control.proxy_health)
    await delete(control, api, "s0")
    await check_due_proxies(control.context, control.proxy_health)
    assert await _low_inventory_alarms(control) == 1
    await provision(api, sessionId="s0")
    await check_due_proxies(control.context, control.proxy_health)
    assert await _low_inventory_alarms(control) == 2


async def test_a_dying_proxy_raises_the_alarm_of_a_pool_that_runs_low(
    api: httpx.AsyncClient, control: Orchestrator, check: FakeCheck
) -> None:
    for n in range(6):
        await provision(api, sessionId=f"s{n}")
    await check_due_proxies(control.context, control.proxy_health)
    assert await _low_inventory_alarms(control) == 0
    check.dead.add(PROXIES[0])
    await condemned(control, proxy_url.proxy_id(PROXIES[0]))
    await check_due_proxies(control.context, control.proxy_health)
    assert await _low_inventory_alarms(control) == 1


async def test_an_installation_without_proxies_is_not_told_that_its_slots_run_low(control: Orchestrator) -> None:
    for proxy in await records.proxies(control.context.scripts):
        await proxies.remove(control.context.scripts, proxy.id)
    await check_due_proxies(control.context, control.proxy_health)
    assert await _low_inventory_alarms(control) == 0


async def _low_inventory_alarms(control: Orchestrator) -> int:
    events = await event_stream.read(control.context.scripts, most=1000)
    return [each.fields["type"] for each in events].count("proxy.low_inventory")


async def test_where_there_is_no_proxy_nobody_is_told_that_all_are_full(
    api: httpx.AsyncClient, control: Orchestrator
) -> None:
    for proxy in await records.proxies(control.context.scripts):
        assert (await api.delete(f"/api/v1/proxies/{proxy.id}")).status_code == 200
    answer = await provision(api)
    assert await code_of(answer) == "NO_PROXY_CAPACITY"
    assert answer.json()["error"]["message"] == "There is no proxy yet. Add one."


async def test_the_last_slot_is_given_once_to_many_who_ask_at_once(api: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(provision(api, proxy=GIVEN) for _ in range(12)))
    assert sorted(each.status_code for each in answers) == [201] * 4 + [409] * 8
    assert {await code_of(each) for each in answers if each.status_code == 409} == {"PROXY_FULL"}


async def test_a_refused_wish_leaves_no_proxy_behind(api: httpx.AsyncClient) -> None:
    await provision(api, sessionId="one")
    await provision(api, sessionId="one", proxy=GIVEN)
    assert len((await api.get("/api/v1/proxies")).json()["proxies"]) == 3


async def test_a_bad_proxy_is_refused_when_it_is_given(
    api: httpx.AsyncClient, control: Orchestrator, check: Any
) -> None:
    check.dead.add(PROXIES[0])
    await condemned(control, IDS[0])
    answer = await provision(api, proxy=PROXIES[0])
    assert (answer.status_code, await code_of(answer)) == (409, "PROXY_BAD")


async def test_a_session_may_have_its_own_presence(control: Orchestrator, api: httpx.AsyncClient) -> None:
    assert (await provision(api, sessionId="s1", presence="never")).status_code == 201
    session = await now(control.context, "s1")
    assert worker_spec.presence_of(control.context.settings, session) == "never"
    answer = await api.put("/api/sessions/s1/presence", json={"presence": "while_sending"})
    assert answer.is_success, answer.text
    session = await now(control.context, "s1")
    assert worker_spec.presence_of(control.context.settings, session) == "while_sending"
    await api.put("/api/sessions/s1/presence", json={"presence": None})
    session = await now(control.context, "s1")
    assert worker_spec.presence_of(control.context.settings, session) == "always"
    assert (await api.put("/api/sessions/s1/presence", json={"presence": "sometimes"})).status_code == 422
