"""The API of sessions: who gets which proxy, what is refused and why, what each operation does."""

import asyncio
import json
import time
from typing import Any

import httpx
import pytest

from tests.orchestrator.conftest import PROXIES
from tests.orchestrator.fakes import ADMIN, FakeRunner, Teller, drive
from tests.orchestrator.test_intake import now, started
from wa_orchestrator.domain import proxy_url
from wa_orchestrator.orchestrator import sessions_api, states
from wa_orchestrator.orchestrator.service import Orchestrator
from wa_orchestrator.store import keys, reading, sessions
from wa_orchestrator.web import auth
from wa_orchestrator.web.auth import Scope

PHONE = "972501234567"
OTHER = "972507654321"
THIRD = "972501112222"
IDS = [proxy_url.proxy_id(url) for url in PROXIES]
GIVEN = "socks5h://user:canary-password-9@given.example.com:1080"


async def provision(api: httpx.AsyncClient, **body: Any) -> httpx.Response:
    return await api.post("/api/sessions/provision", json=body)


async def code_of(answer: httpx.Response) -> str:
    return str(answer.json()["error"]["code"])


async def fill(api: httpx.AsyncClient, proxy: str) -> None:
    """Take all seats of a proxy."""
    while (await provision(api, proxy=proxy)).status_code == 201:
        pass


async def linked(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, session_id: str, phone: str, **body: Any
) -> None:
    """A session that is connected."""
    await started(control, api, session_id, **body)
    await teller.connected(session_id, phone)
    await drive(control)


# -- provisioning -----------------------------------------------------------------------------------------------------


async def test_a_new_session_is_pending_on_the_emptiest_proxy_and_its_password_stays_inside(
    control: Orchestrator, api: httpx.AsyncClient, runner: FakeRunner
) -> None:
    answers = [await provision(api, phone="+972 50-123 4567", label="support") for _ in range(3)]
    assert [each.status_code for each in answers] == [201, 201, 201]
    assert {each.json()["sessionId"] for each in answers} == {"worker_1", "worker_2", "worker_3"}
    assert all(each.json()["status"] == "pending" for each in answers)
    assert {each.json()["proxy"] for each in answers} == {proxy_url.masked(url) for url in PROXIES}
    await drive(control)
    assert sorted(runner.epochs()) == ["worker_1", "worker_2", "worker_3"]
    assert runner.orders[0].secrets["PROXY_URL"] in PROXIES
    shown = (await api.get("/api/sessions")).text + (await api.get("/api/v1/proxies")).text
    assert "canary-password" not in shown + "".join(map(str, runner.orders))


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


async def test_an_id_is_given_once(api: httpx.AsyncClient) -> None:
    await provision(api, sessionId="one")
    answer = await provision(api, sessionId="one")
    assert (answer.status_code, await code_of(answer)) == (409, "SESSION_EXISTS")


async def test_a_phone_gets_no_fifth_session(api: httpx.AsyncClient) -> None:
    answers = [await provision(api, phone=PHONE) for _ in range(5)]
    assert [each.status_code for each in answers] == [201, 201, 201, 201, 409]
    assert await code_of(answers[-1]) == "PHONE_FULL"


async def test_a_full_pool_refuses_and_raises_the_alarm(api: httpx.AsyncClient, control: Orchestrator) -> None:
    answers = [await provision(api) for _ in range(13)]
    assert [each.status_code for each in answers] == [201] * 12 + [409]
    assert await code_of(answers[-1]) == "NO_PROXY_CAPACITY"
    events = await reading.events(control.context.scripts, keys.EVENTS, most=1000)
    assert events[-1].fields["type"] == "proxy.low_inventory"


async def test_the_last_seat_is_given_once_to_many_who_ask_at_once(api: httpx.AsyncClient) -> None:
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
    await control.judge.examine(IDS[0])
    answer = await provision(api, proxy=PROXIES[0])
    assert (answer.status_code, await code_of(answer)) == (409, "PROXY_BAD")


# -- bindings ---------------------------------------------------------------------------------------------------------


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


async def asked(control: Orchestrator, session_id: str = "s1") -> dict[str, Any]:
    """Take, as the worker would, what the server asks of it."""
    found: Any = await control.context.redis.blpop([keys.commands(session_id)], timeout=30)
    assert found is not None, "nothing was asked"
    command: dict[str, Any] = json.loads(found[1])
    return command


async def done(control: Orchestrator, command: dict[str, Any]) -> None:
    """Answer, as the worker would, that it is done."""
    await control.context.redis.rpush(keys.command_result(command["id"]), '{"ok": true}')


async def delete(control: Orchestrator, api: httpx.AsyncClient, session_id: str, **params: Any) -> httpx.Response:
    request = asyncio.create_task(api.delete(f"/api/sessions/{session_id}", params=params))
    while not request.done():
        await drive(control)
        await asyncio.sleep(0.01)
    answer = await request
    assert answer.json() == {"sessionId": session_id, "deleted": True}
    return answer


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
    await teller.connected("second", PHONE)
    moving = await now(control.context, "second")
    assert (moving.proxy, moving.reason, moving.status != "connected") == (own, "MOVING_TO_STICKY_PROXY", True)
    left = keys.sessions_of_proxy(second.proxy)
    assert await control.context.redis.sismember(left, "second")  # until its old worker has ended
    starts = len(runner.orders)
    await drive(control)
    assert not await control.context.redis.sismember(left, "second")
    assert len(runner.orders) == starts + 1
    await teller.connected("second", PHONE)
    after = await now(control.context, "second")
    assert (after.status, after.proxy) == ("connected", own)
    assert await control.context.redis.get(keys.sticky(PHONE)) == own


async def test_a_move_to_the_phones_own_proxy_is_finished_although_the_server_died_within_it(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await linked(control, api, teller, "first", PHONE)
    await started(control, api, "second")

    async def dies(*_: object) -> None:
        raise RuntimeError("dies")

    monkeypatch.setattr(states, "ask_restart", dies)
    assert (await teller.connected("second", PHONE)).status_code == 500
    moving = await now(control.context, "second")
    assert moving.proxy == (await now(control.context, "first")).proxy
    assert states.restart_pending(moving)


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
        await control.judge.examine(own)
    else:
        await fill(api, url)
    second = await started(control, api, "second")
    await teller.connected("second", PHONE)
    history: Any = await control.context.redis.xrange(keys.sticky_history(PHONE))
    assert [fields["reason"] for _, fields in history] == ["first", f"sticky_{trouble}"]
    assert await control.context.redis.get(keys.sticky(PHONE)) == second.proxy != own


async def test_a_device_too_many_for_its_phone_is_unlinked_again(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    for number in range(4):
        await linked(control, api, teller, f"s{number}", PHONE)
    await started(control, api, "fifth")
    await teller.connected("fifth", PHONE)
    assert (await now(control.context, "fifth")).status != "connected"
    commands = await control.context.redis.lrange(keys.commands("fifth"), 0, -1)
    assert len(commands) == 1
    assert '"logout"' in commands[0]
    history = (await api.get("/api/sessions/fifth/history")).json()["events"]
    assert history[0]["reason"] == "PHONE_FULL"


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
    starts = len(runner.orders)
    await api.post("/api/sessions/s1/restart")
    await drive(control)
    assert len(runner.orders) == starts + 1
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


async def test_a_deleted_session_is_gone_with_its_worker_and_its_seat(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller, runner: FakeRunner
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    await delete(control, api, "s1")
    assert runner.running == {}
    assert (await api.get("/api/sessions")).json()["sessions"] == []
    assert (await api.get("/api/v1/proxies")).json()["inventory"]["free"] == 12


async def test_credentials_of_a_deleted_session_come_back_with_it(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    directory = control.context.settings.sessions_dir / "s1"
    directory.mkdir(parents=True)
    (directory / "auth.db").write_text("credentials")
    await delete(control, api, "s1")
    assert not directory.exists()
    trash = (await api.get("/api/v1/trash")).json()["trash"]
    assert (await api.post(f"/api/v1/trash/{trash[0]['id']}/restore")).json() == {"sessionId": "s1", "restored": True}
    assert (directory / "auth.db").read_text() == "credentials"
    assert (await now(control.context, "s1")).phone == PHONE
    answer = await api.post("/api/v1/trash/s1-1750000000000/restore")
    assert (answer.status_code, await code_of(answer)) == (404, "NOT_IN_TRASH")


async def test_credentials_of_a_logged_out_session_come_back_to_it(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    directory = control.context.settings.sessions_dir / "s1"
    directory.mkdir(parents=True)
    (directory / "auth.db").write_text("old")
    await teller.disconnected("s1", 401)
    await drive(control)
    (directory).mkdir(exist_ok=True)
    (directory / "auth.db").write_text("new")
    assert (await api.post("/api/sessions/s1/restore-credentials")).status_code == 200
    await drive(control)
    assert (directory / "auth.db").read_text() == "old"
    answer = await api.post("/api/sessions/s1/restore-credentials")
    assert answer.status_code == 200  # the newer ones lie in the trash now


async def test_credentials_that_came_back_before_a_crash_stay_and_the_session_goes_on(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    directory = control.context.settings.sessions_dir / "s1"
    directory.mkdir(parents=True)
    (directory / "auth.db").write_text("brought back")
    await control.context.redis.hset(keys.session("s1"), "restore", "s1-1750000000000")
    await states.call_attention(control.context, "s1")
    await drive(control)
    assert (directory / "auth.db").read_text() == "brought back"
    assert not (await now(control.context, "s1")).fields.get("restore")


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
    record, key = await auth.create_key(control.context, "reader", [Scope.READ])
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
    assert 'wa_proxy_seats{state="free"} 11.0' in text
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
    monkeypatch.setattr(sessions_api, "_CODE_WITHIN_S", 0.1)
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
    assert len(runner.orders) == 2


async def test_a_code_that_does_not_come_in_time_is_told_as_such(
    control: Orchestrator, api: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions_api, "_CODE_WITHIN_S", 0.3)
    await started(control, api)
    request = asyncio.create_task(api.post("/api/sessions/s1/pairing-code", json={"phone": PHONE}))
    await done(control, await asked(control))
    answer = await request
    assert (answer.status_code, await code_of(answer), answer.headers["retry-after"]) == (503, "NO_CODE_YET", "5")


async def test_credentials_are_not_brought_back_over_others(
    control: Orchestrator, api: httpx.AsyncClient, teller: Teller
) -> None:
    await linked(control, api, teller, "s1", PHONE)
    directory = control.context.settings.sessions_dir / "s1"
    directory.mkdir(parents=True)
    (directory / "auth.db").write_text("old")
    await delete(control, api, "s1")
    directory.mkdir()
    (directory / "auth.db").write_text("somebody put these here")
    trash = (await api.get("/api/v1/trash")).json()["trash"][0]["id"]
    answer = await api.post(f"/api/v1/trash/{trash}/restore")
    assert (answer.status_code, await code_of(answer)) == (409, "HAS_CREDENTIALS")
    assert (directory / "auth.db").read_text() == "somebody put these here"


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
