"""What operators change about sessions and proxies that exist."""

import json
from typing import Any

import httpx
import pytest

from tests.orchestrator.conftest import PROXIES
from tests.orchestrator.fakes import FakeCheck, FakeRunner, Teller, drive, part
from tests.orchestrator.session_steps import GIVEN, IDS, PHONE, code_of, fill, linked, now, provision, started
from wa_orchestrator.domain.proxies import proxy_url
from wa_orchestrator.domain.sessions.session import State
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.orchestrator.workers.reconciler import Reconciler
from wa_orchestrator.store import keys, proxies, records
from wa_orchestrator.store.records import SessionChanges
from wa_orchestrator.store.sessions import slots, update

NEW_PASSWORD = "canary-password-new"


async def change(api: httpx.AsyncClient, session_id: str = "s1", **body: Any) -> httpx.Response:
    return await api.patch(f"/api/sessions/{session_id}", json=body)


async def elsewhere(control: Orchestrator, session_id: str = "s1") -> str:
    """A proxy of the pool that the session does not use."""
    own = (await now(control.context, session_id)).proxy
    return next(each for each in IDS if each != own)


async def exit_of(runner: FakeRunner, session_id: str) -> str:
    """The proxy that the newest worker of a session was started with."""
    spec = next(each for each in reversed(runner.started) if each.session_id == session_id)
    return proxy_url.proxy_id(spec.secrets["PROXY_URL"])


async def test_what_is_not_named_stays_and_null_takes_away(control: Orchestrator, api: httpx.AsyncClient) -> None:
    await started(control, api, label="support", tags=["haifa"])
    changed = (
        await change(api, notes="call Dana first", timezone="Asia/Jerusalem", tags=[" vip ", "vip", "haifa"])
    ).json()
    assert (changed["label"], changed["tags"], changed["notes"]) == ("support", ["vip", "haifa"], "call Dana first")
    assert changed["timezone"] == "Asia/Jerusalem"
    changed = (await change(api, label=None, tags=None, timezone=None)).json()
    assert (changed["label"], changed["tags"], changed["timezone"]) == (None, [], None)
    assert changed["notes"] == "call Dana first"
    entries: Any = await control.context.redis.xrevrange(keys.AUDIT, count=2)
    assert {fields["action"] for _, fields in entries} == {"session.change"}
    assert "Dana" not in json.dumps([fields for _, fields in entries])


@pytest.mark.parametrize("body", [{"tags": ["a,b"]}, {"tags": [""]}, {"timezone": "Mars"}, {"presence": "sometimes"}])
async def test_a_bad_value_changes_nothing(control: Orchestrator, api: httpx.AsyncClient, body: dict[str, Any]) -> None:
    await started(control, api, label="support")
    answer = await change(api, label="other", **body)
    assert (answer.status_code, await code_of(answer)) == (422, "VALIDATION_FAILED")
    assert (await now(control.context, "s1")).label == "support"


async def test_sessions_are_listed_and_found_by_tag(control: Orchestrator, api: httpx.AsyncClient) -> None:
    await started(control, api, "s1", tags=["haifa", "vip"])
    await started(control, api, "s2", label="haifa")
    for query, expected in (({"tag": "haifa"}, ["s1"]), ({"text": "VIP"}, ["s1"]), ({"label": "haifa"}, ["s2"])):
        found = (await api.get("/api/sessions", params=query)).json()["sessions"]
        assert [each["sessionId"] for each in found] == expected


async def test_a_connected_session_restarts_only_when_its_presence_changes(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await change(api, label="support", presence=None)
    await drive(control)
    assert len(runner.started) == 1
    await change(api, presence="never")
    await drive(control)
    assert runner.started[-1].environment["PRESENCE"] == "never"


async def test_a_session_moves_at_once_to_the_proxy_that_was_chosen_with_its_phone_and_without_a_scan(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await linked(control, api, teller, "s2", PHONE)
    chosen = await elsewhere(control)
    old = (await now(control.context, "s1")).proxy
    answer = await change(api, proxy=chosen)
    assert (answer.status_code, answer.json()["proxyId"]) == (200, chosen)
    await drive(control)
    assert {(await now(control.context, each)).proxy for each in ("s1", "s2")} == {chosen}
    assert [await exit_of(runner, each) for each in ("s1", "s2")] == [chosen, chosen]
    assert await slots.sticky_proxy(control.context.scripts, PHONE) == chosen
    assert await control.context.redis.scard(keys.sessions_of_proxy(old)) == 0


async def test_a_move_at_the_next_restart_leaves_the_worker_alone_until_then(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    chosen, old = await elsewhere(control), (await now(control.context, "s1")).proxy
    changed = (await change(api, proxy=chosen, proxyMove="restart")).json()
    assert (changed["proxyId"], changed["nextRestartProxy"], changed["status"]) == (chosen, True, "connected")
    await part(control, Reconciler).step()
    await drive(control)
    assert len(runner.started) == 1
    slots_held = {each: await control.context.redis.scard(keys.sessions_of_proxy(each)) for each in (old, chosen)}
    assert slots_held == {old: 1, chosen: 1}  # its worker still leaves through the old one
    await api.post("/api/sessions/s1/restart")
    await drive(control)
    assert await exit_of(runner, "s1") == chosen
    assert await control.context.redis.scard(keys.sessions_of_proxy(old)) == 0
    assert (await api.get("/api/sessions/s1")).json()["nextRestartProxy"] is False


async def test_a_session_that_waits_for_its_restart_moves_when_its_old_proxy_dies(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner, check: FakeCheck
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    chosen, old = await elsewhere(control), (await now(control.context, "s1")).proxy
    await change(api, proxy=chosen, proxyMove="restart")
    check.dead.add(PROXIES[IDS.index(old)])
    for _ in range(3):
        await control.proxy_health.check(old)
    await drive(control)
    assert await exit_of(runner, "s1") == chosen


async def test_one_of_two_sessions_of_a_phone_does_not_move_at_a_restart_of_its_own(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await linked(control, api, teller, "s2", PHONE)
    answer = await change(api, proxy=await elsewhere(control), proxyMove="restart")
    assert (answer.status_code, await code_of(answer)) == (409, "MOVES_TOGETHER")


async def test_a_choice_that_cannot_be_had_changes_nothing_and_leaves_no_proxy_behind(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, check: FakeCheck
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    before, chosen = await now(control.context, "s1"), await elsewhere(control)
    check.dead.add(GIVEN)
    answer = await change(api, proxy=GIVEN, label="other")
    assert (answer.status_code, await code_of(answer)) == (409, "PROXY_UNREACHABLE")
    check.dead.clear()
    await fill(api, PROXIES[IDS.index(chosen)])
    answer = await change(api, proxy=chosen, label="other")
    assert (answer.status_code, await code_of(answer)) == (409, "PROXY_FULL")
    await update(control.context.scripts, "s1", SessionChanges(banned=True))
    answer = await change(api, proxy=GIVEN, label="other")
    assert (answer.status_code, await code_of(answer)) == (409, "BANNED_KEEPS_PROXY")
    after = await now(control.context, "s1")
    assert (after.proxy, after.label, after.status) == (before.proxy, "", State.CONNECTED)
    assert {each.id for each in await records.proxies(control.context.scripts)} == set(IDS)
    assert await code_of(await change(api, proxy="p_0000000000")) == "NO_SUCH_PROXY"
    assert "canary-password" not in (await api.get("/api/v1/audit")).text


async def test_a_proxy_keeps_its_id_and_sessions_when_its_password_changes(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner, check: FakeCheck
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    own = (await now(control.context, "s1")).proxy
    url = PROXIES[IDS.index(own)]
    new_url = url.replace("canary-password-" + url.split("password-")[1][0], NEW_PASSWORD)
    check.dead.add(new_url)
    answer = await api.patch(f"/api/v1/proxies/{own}", json={"password": NEW_PASSWORD, "name": "Haifa 1"})
    assert (answer.status_code, await code_of(answer)) == (409, "PROXY_UNREACHABLE")
    check.dead.clear()
    body = {"password": NEW_PASSWORD, "name": "Haifa 1", "provider": "Acme", "country": "il", "expiresOn": "2030-01-31"}
    answer = await api.patch(f"/api/v1/proxies/{own}", json=body)
    changed = answer.json()
    assert (changed["id"], changed["name"], changed["country"], changed["expiresOn"]) == (
        own,
        "Haifa 1",
        "IL",
        "2030-01-31",
    )
    assert (changed["sessions"], NEW_PASSWORD in answer.text) == (["s1"], False)
    await drive(control)
    assert runner.started[-1].secrets["PROXY_URL"] == new_url
    assert (await now(control.context, "s1")).proxy == own
    # The same proxy under its new URL is the same proxy, wherever it is named.
    assert await code_of(await api.post("/api/v1/proxies", json={"url": new_url})) == "PROXY_KNOWN"
    assert (await provision(api, sessionId="s9", proxy=new_url)).status_code == 201
    assert (await now(control.context, "s9")).proxy == own
    assert len(await records.proxies(control.context.scripts)) == len(PROXIES)
    assert NEW_PASSWORD not in (await api.get("/api/v1/audit")).text


async def test_a_proxy_without_a_user_has_no_password_to_change(control: Orchestrator, api: httpx.AsyncClient) -> None:
    plain = proxy_url.parse("socks5h://plain.example.com:1080")
    await proxies.add(control.context.scripts, plain.id, url=plain.url, masked=plain.masked, origin="operator")
    answer = await api.patch(f"/api/v1/proxies/{plain.id}", json={"password": "x"})
    assert (answer.status_code, await code_of(answer)) == (422, "NO_USER")


async def test_a_providers_list_is_imported_as_it_is_written(control: Orchestrator, api: httpx.AsyncClient) -> None:
    lines = [
        "one.example.com:1080:user:canary-password-1",
        "two.example.com,1080,user,canary-password-2",
        "# sold",
        "x:y",
    ]
    answer = await api.post("/api/v1/proxies/import", json={"text": "\n".join(lines)})
    assert [(each["line"], each["code"]) for each in answer.json()["errors"]] == [(4, "BAD_PROXY_URL")]
    stored = {each.url for each in await records.proxies(control.context.scripts)} - set(PROXIES)
    assert stored == {
        f"socks5h://user:canary-password-{n}@{name}.example.com:1080" for n, name in ((1, "one"), (2, "two"))
    }
    assert "canary-password" not in answer.text
