"""The API of sessions: what is shown, what each operation does, and who may do it."""

import asyncio
import json
import time
from typing import Any

import httpx
import pytest

from tests.orchestrator.fakes import ADMIN, FakeRunner, Teller, drive
from tests.orchestrator.session_steps import (
    IDS,
    OTHER,
    PHONE,
    THIRD,
    asked,
    code_of,
    delete,
    done,
    linked,
    now,
    provision,
    started,
    with_credentials,
)
from wa_orchestrator.domain.access.permissions import Scope
from wa_orchestrator.orchestrator.api.sessions import changes
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.access import api_keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.sessions import control_plane

# -- reading ----------------------------------------------------------------------------------------------------------


async def test_lists_are_filtered_and_come_in_pages(api: httpx.AsyncClient) -> None:
    for number in range(5):
        await provision(api, sessionId=f"s{number}", label="odd" if number % 2 else "even")
    first = (await api.get("/api/sessions", params={"limit": 2})).json()
    second = (await api.get("/api/sessions", params={"limit": 2, "cursor": first["next"]})).json()
    third = (await api.get("/api/sessions", params={"limit": 2, "cursor": second["next"]})).json()
    shown = [each["sessionId"] for page in (first, second, third) for each in page["sessions"]]
    assert (shown, first["total"], third["next"]) == ([f"s{n}" for n in range(5)], 5, None)
    odd = (await api.get("/api/sessions", params={"label": "odd"})).json()["sessions"]
    assert [each["sessionId"] for each in odd] == ["s1", "s3"]
    assert (await api.get("/api/sessions", params={"status": "connected"})).json()["total"] == 0
    assert (await api.get("/api/sessions", params={"text": "S4"})).json()["total"] == 1
    on_one = (await api.get("/api/sessions", params={"proxy": IDS[0]})).json()
    assert 0 < on_one["total"] < 5
    answer = await api.get("/api/sessions", params={"cursor": "%%%"})
    assert (answer.status_code, await code_of(answer)) == (400, "BAD_CURSOR")


async def test_a_page_of_all_sessions_reads_those_on_it_and_counts_none_that_is_being_removed(
    control: Orchestrator, api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        await provision(api, sessionId=f"s{number}")
    await control.context.redis.hset(keys.session("s0"), "removing", "keep")
    read: list[list[str]] = []
    read_sessions = records.sessions

    async def sessions_read(scripts: Scripts, ids: Any = None) -> Any:
        read.append(ids)
        return await read_sessions(scripts, ids)

    monkeypatch.setattr(records, "sessions", sessions_read)
    page = (await api.get("/api/sessions", params={"limit": 2})).json()
    assert ([each["sessionId"] for each in page["sessions"]], page["total"]) == (["s1", "s2"], 4)
    assert read == [["s1", "s2"]]


async def test_a_code_is_shown_as_json_and_as_pictures_until_it_expires(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await started(control, api)
    nothing = await api.get("/api/sessions/s1/qr")
    assert (nothing.status_code, nothing.json()["error"]["code"], nothing.json()["error"]["status"]) == (
        404,
        "NO_QR",
        "pending",
    )
    await teller.qr("s1", "2@some,linking,code")
    shown = (await api.get("/api/sessions/s1/qr", headers={"Accept": "application/json"})).json()
    assert shown["qr"] == "2@some,linking,code"
    assert shown["image"].startswith("data:image/png;base64,")
    png = await api.get("/api/sessions/s1/qr", headers={"Accept": "image/png"})
    svg = await api.get("/api/sessions/s1/qr", headers={"Accept": "image/svg+xml"})
    assert png.content.startswith(b"\x89PNG")
    assert b"<svg" in svg.content
    assert png.headers["cache-control"] == "no-store"
    left_ms = await control.context.redis.pttl(keys.qr("s1"))
    assert 0 < left_ms <= 60_000
    await teller.connected("s1", PHONE)
    assert (await api.get("/api/sessions/s1/qr")).status_code == 404


async def test_a_late_older_code_does_not_replace_a_newer_one(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await started(control, api)
    await teller.qr("s1", "2@newer", 60_000)
    await teller.qr("s1", "2@older", 20_000)
    assert (await api.get("/api/sessions/s1/qr")).json()["qr"] == "2@newer"


async def test_a_pairing_code_comes_from_the_worker(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await started(control, api)
    request = asyncio.create_task(api.post("/api/sessions/s1/pairing-code", json={"phone": PHONE}))
    command = await asked(control)
    assert command["phone"] == PHONE
    expires = round(time.time() * 1000) + 60_000
    await teller.tell("s1", "PAIRING_CODE", {"code": "ABCD1234", "expiresAt": expires})
    await done(control, command)
    assert (await request).json()["code"] == "ABCD1234"
    assert (await api.get("/api/sessions/s1/qr")).json()["code"] == "ABCD1234"


async def test_a_pairing_code_needs_a_phone_and_an_unlinked_session(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await started(control, api)
    answer = await api.post("/api/sessions/s1/pairing-code")
    assert (answer.status_code, await code_of(answer)) == (422, "PHONE_NEEDED_FOR_CODE")
    await teller.connected("s1", PHONE)
    answer = await api.post("/api/sessions/s1/pairing-code", json={"phone": PHONE})
    assert (answer.status_code, await code_of(answer)) == (409, "ALREADY_LINKED")


# -- operations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("GET", "/status"),
        ("GET", "/history"),
        ("GET", "/qr"),
        ("POST", "/pairing-code"),
        ("POST", "/restart"),
        ("POST", "/stop"),
        ("POST", "/start"),
        ("POST", "/logout"),
        ("POST", "/restore-credentials"),
        ("DELETE", ""),
    ],
)
async def test_every_operation_says_when_there_is_no_such_session(
    api: httpx.AsyncClient, method: str, path: str
) -> None:
    answer = await api.request(method, f"/api/sessions/nobody{path}")
    assert (answer.status_code, await code_of(answer)) == (404, "NO_SUCH_SESSION")


async def test_stop_start_and_restart_may_be_repeated(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    for _ in range(2):
        answer = await api.post("/api/sessions/s1/stop")
        await drive(control)
        assert (answer.json()["status"], answer.json()["reason"], runner.running) == (
            "stopped",
            "STOPPED_BY_OPERATOR",
            {},
        )
    for _ in range(2):
        await api.post("/api/sessions/s1/start")
        await drive(control)
        assert list(runner.epochs()) == ["s1"]
    starts = len(runner.started)
    await api.post("/api/sessions/s1/restart")
    await drive(control)
    assert len(runner.started) == starts + 1
    assert len(runner.running) == 1


async def test_a_stopped_session_stays_stopped_whatever_its_worker_still_says(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await api.post("/api/sessions/s1/stop")
    await teller.connected("s1", PHONE)
    assert (await now(control.context, "s1")).status == "stopped"


async def test_logout_of_an_unlinked_session_discards_what_it_has(
    control: Orchestrator, api: httpx.AsyncClient, runner: FakeRunner
) -> None:
    session = await started(control, api)
    assert (await api.post("/api/sessions/s1/logout")).json()["reason"] == "LOGGED_OUT"
    await drive(control)
    assert runner.epochs()["s1"] > session.epoch


async def test_a_deleted_session_is_gone_with_its_worker_and_its_slot(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await delete(control, api, "s1")
    assert runner.running == {}
    assert (await api.get("/api/sessions")).json()["sessions"] == []
    assert (await api.get("/api/v1/proxies")).json()["inventory"]["free"] == 12


async def test_credentials_of_a_deleted_session_come_back_with_it(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    credentials = with_credentials(control, "credentials")
    await delete(control, api, "s1")
    assert not credentials.parent.exists()
    trash = (await api.get("/api/v1/trash")).json()["trash"]
    assert (await api.post(f"/api/v1/trash/{trash[0]['id']}/restore")).json() == {"sessionId": "s1", "restored": True}
    # Were the server to die here, the credentials lie in the trash and the session knows that they are to come.
    assert [each["id"] for each in (await api.get("/api/v1/trash")).json()["trash"]] == [trash[0]["id"]]
    assert not await control.pool.start("s1"), "no worker starts before its credentials are there"
    await drive(control)
    assert "s1" in runner.epochs()
    assert credentials.read_text() == "credentials"
    assert (await now(control.context, "s1")).phone == PHONE
    answer = await api.post("/api/v1/trash/s1-1750000000000/restore")
    assert (answer.status_code, await code_of(answer)) == (404, "NOT_IN_TRASH")


async def test_credentials_of_a_logged_out_session_come_back_to_it(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    credentials = with_credentials(control, "old")
    await teller.disconnected("s1", 401)
    await drive(control)
    with_credentials(control, "new")
    assert (await api.post("/api/sessions/s1/restore-credentials")).status_code == 200
    await drive(control)
    assert credentials.read_text() == "old"
    answer = await api.post("/api/sessions/s1/restore-credentials")
    assert answer.status_code == 200  # the newer ones lie in the trash now


async def test_credentials_that_came_back_before_a_crash_stay_and_the_session_goes_on(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    credentials = with_credentials(control, "brought back")
    await control.context.redis.hset(keys.session("s1"), "restore", "s1-1750000000000")
    await control_plane.request_attention(control.context.scripts, "s1")
    await drive(control)
    assert credentials.read_text() == "brought back"
    assert not (await now(control.context, "s1")).restore


async def test_there_is_nothing_to_bring_back_from_an_empty_trash(
    control: Orchestrator, api: httpx.AsyncClient
) -> None:
    await started(control, api)
    answer = await api.post("/api/sessions/s1/restore-credentials")
    assert (answer.status_code, await code_of(answer)) == (404, "NOT_IN_TRASH")


# -- who may ----------------------------------------------------------------------------------------------------------


async def test_scopes_are_kept_and_the_code_is_for_administrators_only(
    control: Orchestrator, client: httpx.AsyncClient
) -> None:
    missing = await client.get("/api/sessions")
    unknown = await client.get("/api/sessions", headers={"X-API-Key": "wao_nobody"})
    assert [(each.status_code, await code_of(each)) for each in (missing, unknown)] == [
        (401, "API_KEY_MISSING"),
        (401, "API_KEY_UNKNOWN"),
    ]
    record, key = await api_keys.create(control.context.scripts, "reader", [Scope.READ])
    reader = {"Authorization": f"Bearer {key}"}
    assert (await client.get("/api/sessions", headers=reader)).status_code == 200
    for method, path in (("GET", "/api/sessions/s1/qr"), ("POST", "/api/sessions/provision"), ("GET", "/api/v1/keys")):
        answer = await client.request(method, path, headers=reader, json={} if method == "POST" else None)
        assert (answer.status_code, await code_of(answer)) == (403, "SCOPE_MISSING")
    assert (await client.delete(f"/api/v1/keys/{record.id}", headers=ADMIN)).status_code == 200
    assert (await client.get("/api/sessions", headers=reader)).status_code == 401


async def test_a_key_is_shown_once_and_every_act_is_written_down(api: httpx.AsyncClient) -> None:
    made = (await api.post("/api/v1/keys", json={"name": "CRM", "scopes": ["send"]})).json()
    listed = await api.get("/api/v1/keys")
    assert made["key"] not in listed.text
    assert [each["id"] for each in listed.json()["keys"]] == [made["id"]]
    await provision(api, sessionId="s1")
    actions = [each["action"] for each in (await api.get("/api/v1/audit")).json()["entries"]]
    assert actions == ["session.provision", "key.make"]
    answer = await api.delete("/api/v1/keys/k_none")
    assert (answer.status_code, await code_of(answer)) == (404, "NO_SUCH_KEY")


async def test_without_a_simulated_world_its_address_is_not_told(api: httpx.AsyncClient) -> None:
    answer = await api.get("/api/v1/simulator")
    assert (answer.status_code, await code_of(answer)) == (404, "NO_SIMULATOR")


async def test_figures_are_there_and_hold_no_phone(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    text = (await api.get("/metrics")).text
    assert 'wa_sessions{status="connected"} 1.0' in text
    assert 'wa_proxy_slots{state="free"} 11.0' in text
    assert PHONE not in text


async def test_every_route_and_its_errors_are_described(api: httpx.AsyncClient) -> None:
    described = (await api.get("/openapi.json")).json()["paths"]
    assert "NO_PROXY_CAPACITY" in described["/api/sessions/provision"]["post"]["responses"]["409"]["description"]
    assert set(described) >= {
        "/api/sessions",
        "/api/sessions/{session_id}/qr",
        "/api/v1/proxies/{proxy_id}/reinstate",
        "/api/v1/keys",
        "/webhook",
        "/api/webhook",
        "/health",
        "/metrics",
    }


# -- what only waiting or a second look can cure ----------------------------------------------------------------------


async def test_a_worker_that_does_not_answer_is_told_as_such_and_nothing_changes(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_CODE_WITHIN_S", 0.1)
    await linked(control, api, teller, "s1", PHONE)
    answer = await api.post("/api/sessions/s1/logout")
    assert (answer.status_code, await code_of(answer)) == (503, "WORKER_SILENT")
    assert (await now(control.context, "s1")).status == "connected"


async def test_a_logout_that_the_worker_reported_itself_is_acted_on_once(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    request = asyncio.create_task(api.post("/api/sessions/s1/logout"))
    await done(control, await asked(control))
    await teller.disconnected("s1", 401)
    assert (await request).json()["reason"] == "LOGGED_OUT"
    await drive(control)
    assert len(runner.started) == 2


async def test_a_code_that_does_not_come_in_time_is_told_as_such(
    control: Orchestrator, api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "_CODE_WITHIN_S", 0.3)
    await started(control, api)
    request = asyncio.create_task(api.post("/api/sessions/s1/pairing-code", json={"phone": PHONE}))
    await done(control, await asked(control))
    answer = await request
    assert (answer.status_code, await code_of(answer), answer.headers["retry-after"]) == (503, "NO_CODE_YET", "5")


async def test_credentials_are_not_brought_back_over_others(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    credentials = with_credentials(control, "old")
    await delete(control, api, "s1")
    with_credentials(control, "somebody put these here")
    trash = (await api.get("/api/v1/trash")).json()["trash"][0]["id"]
    answer = await api.post(f"/api/v1/trash/{trash}/restore")
    assert (answer.status_code, await code_of(answer)) == (409, "HAS_CREDENTIALS")
    assert credentials.read_text() == "somebody put these here"


async def test_queued_messages_of_a_deleted_session_are_cancelled_or_go_to_another(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "heir", OTHER)
    await linked(control, api, teller, "banned", THIRD)
    hold = json.dumps({"until_ms": 9_000_000_000_000_000, "why": "BAN_SIGNAL", "by": "server"})
    await control.context.redis.hset(keys.HOLDS, f"phone:{THIRD}", hold)
    await control.context.redis.zadd(keys.queue(OTHER), {"m_longer": 1})
    ends: dict[str, Any] = {}
    for how in ("cancel", "reroute"):
        await linked(control, api, teller, how, PHONE)
        session = await now(control.context, how)
        message = f"m_{'0' * 17}{len(ends)}"
        fields = {"id": message, "phone": PHONE, "session": how, "to": "97259", "status": "queued", "accepted_at": 1}
        await control.context.redis.hset(keys.message(message), mapping=fields)  # type: ignore[arg-type]
        await control.context.redis.zadd(keys.messages_of_session(how), {message: 1})
        await control.context.redis.zadd(keys.queue(PHONE), {message: 1})
        await delete(control, api, session.id, queued=how)
        stored = await control.context.redis.hgetall(keys.message(message))
        ends[how] = (stored["status"], stored["session"])
    assert ends == {"cancel": ("cancelled", "cancel"), "reroute": ("queued", "heir")}
