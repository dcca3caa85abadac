"""Accounts of people: passwords, roles, labels, second factor, and what each role can reach."""

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr
from redis.asyncio import Redis

from tests.orchestrator.fakes import ADMIN
from tests.security.fleet import LABELS, MINE, THEIRS, TwoCustomers, two_customers
from tests.security.redis_content import content
from wa_orchestrator.dashboard import accounts
from wa_orchestrator.domain.access import second_factor
from wa_orchestrator.domain.access.permissions import Role
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.store import keys
from wa_orchestrator.store.access import logins, people
from wa_orchestrator.store.access.people import Account

SAME = {"Origin": "http://server", "Accept-Language": "en"}
PASSWORD = "copper-lantern-52-rivers"
SECRET = bytes(range(20))


@pytest.fixture
async def fleet(redis: Redis, tmp_path: Path) -> AsyncIterator[TwoCustomers]:
    made = await two_customers(redis, tmp_path)
    yield made
    await made.client.aclose()


async def _person(fleet: TwoCustomers, name: str, role: Role, *labels: str) -> Account:
    account = await people.create(fleet.context.scripts, name, role, labels)
    return await accounts.set_password(fleet.context.scripts, account.id, PASSWORD)


async def _log_in(fleet: TwoCustomers, name: str, password: str = PASSWORD) -> httpx.Response:
    fleet.client.cookies.clear()
    return await fleet.client.post("/login", headers=SAME, data={"name": name, "password": password})


async def _do(fleet: TwoCustomers, action: str, **form: str) -> tuple[int, str]:
    page = await fleet.client.get("/", headers=SAME)
    token = re.search(r'data-csrf="([0-9a-f]+)"', page.text)
    assert token
    answer = await fleet.client.post(f"/do/{action}", headers=SAME | {"X-CSRF-Token": token[1]}, data=form)
    return answer.status_code, answer.json().get("error", {}).get("code", answer.json()["state"])


async def test_a_person_logs_in_by_name_and_the_audit_log_names_them(fleet: TwoCustomers) -> None:
    dana = await _person(fleet, "Dana", Role.OPERATOR)
    assert (await _log_in(fleet, "dana")).headers["location"] == "/"
    newest = (await fleet.client.get("/api/v1/audit", headers=ADMIN)).json()["entries"][0]
    assert (newest["by"], newest["name"], newest["action"]) == (f"person:{dana.id}", "Dana", "dashboard.login")


async def test_the_name_of_an_account_takes_its_own_password_only(fleet: TwoCustomers) -> None:
    await _person(fleet, "Dana", Role.OPERATOR)
    assert (await _log_in(fleet, "Dana", "not-a-real-pass-phrase")).status_code == 401
    assert (await _log_in(fleet, "Noa", "not-a-real-pass-phrase")).status_code == 303


async def test_a_viewer_changes_nothing_and_an_operator_no_keys(fleet: TwoCustomers) -> None:
    await _person(fleet, "Vera", Role.VIEWER)
    await _person(fleet, "Omer", Role.OPERATOR)
    await _log_in(fleet, "Vera")
    assert await _do(fleet, "hold", scope="session", id=MINE) == (403, "VIEWERS_ONLY_LOOK")
    await _log_in(fleet, "Omer")
    assert await _do(fleet, "hold", scope="session", id=MINE) == (200, "ok")
    assert await _do(fleet, "key-make", name="x", scopes="admin") == (200, "error")
    for path in ("/people", "/audit", "/settings"):
        assert (await fleet.client.get(path, headers=SAME)).status_code == 403, path


async def test_a_person_with_labels_sees_their_sessions_on_every_page(fleet: TwoCustomers) -> None:
    await _person(fleet, "Oren", Role.OPERATOR, LABELS[MINE])
    await _log_in(fleet, "Oren")
    for path in (
        "/",
        "/scan",
        "/messages",
        "/anti-ban",
        "/live-log",
        f"/sessions/{MINE}",
        f"/messages?id={fleet.messages[THEIRS]}",
    ):
        page = await fleet.client.get(path, headers=SAME)
        assert page.status_code == 200, path
        assert LABELS[THEIRS] not in page.text, path
        assert f"/sessions/{THEIRS}" not in page.text, path
    assert fleet.messages[THEIRS] not in (await fleet.client.get("/live-log", headers=SAME)).text
    assert (await fleet.client.get(f"/sessions/{THEIRS}", headers=SAME)).status_code == 404
    assert (await fleet.client.get("/proxies", headers=SAME)).status_code == 403
    assert (await fleet.client.get("/events/ui?page=proxies", headers=SAME)).status_code == 404
    assert (await _do(fleet, "hold", scope="session", id=THEIRS))[1] == "error"
    assert await _do(fleet, "hold", scope="session", id=MINE) == (200, "ok")
    assert (await _do(fleet, "hold", scope="all"))[1] == "error"


async def test_a_changed_role_and_a_deleted_account_end_logins(fleet: TwoCustomers) -> None:
    dana = await _person(fleet, "Dana", Role.OPERATOR)
    for change in ("PATCH", "DELETE"):
        await _log_in(fleet, "Dana")
        assert (await fleet.client.get("/", headers=SAME)).status_code == 200
        path, body = f"/api/v1/people/{dana.id}", {"role": "viewer"} if change == "PATCH" else None
        assert (await fleet.client.request(change, path, headers=ADMIN, json=body)).status_code == 200
        assert (await fleet.client.get("/", headers=SAME)).status_code == 303


async def test_a_login_is_listed_and_ended(fleet: TwoCustomers) -> None:
    await _person(fleet, "Dana", Role.VIEWER)
    await _log_in(fleet, "Dana")
    listed = (await fleet.client.get("/api/v1/logins", headers=ADMIN)).json()["logins"]
    assert [each["name"] for each in listed] == ["Dana"]
    assert (await fleet.client.delete(f"/api/v1/logins/{listed[0]['id']}", headers=ADMIN)).status_code == 200
    assert (await fleet.client.get("/", headers=SAME)).status_code == 303


async def test_the_last_administrator_stays(fleet: TwoCustomers) -> None:
    dana = await _person(fleet, "Dana", Role.ADMINISTRATOR)
    await _person(fleet, "Omer", Role.OPERATOR)
    for method, body in (("DELETE", None), ("PATCH", {"role": "viewer"})):
        answer = await fleet.client.request(method, f"/api/v1/people/{dana.id}", headers=ADMIN, json=body)
        assert answer.json()["error"]["code"] == "LAST_ADMINISTRATOR"


async def test_a_person_sets_a_password_by_a_link_that_works_once(fleet: TwoCustomers) -> None:
    body = {"name": "Noa", "role": "viewer", "labels": [LABELS[MINE]]}
    made = (await fleet.client.post("/api/v1/people", headers=ADMIN, json=body)).json()
    token = made["link"].partition("#")[2]
    assert (await fleet.client.post("/enter", headers=SAME, data={"token": token})).status_code == 303
    page = await fleet.client.get("/account", headers=SAME)
    csrf = re.search(r'name="csrf" value="([0-9a-f]+)"', page.text)
    assert csrf
    form = {"csrf": csrf[1], "password": PASSWORD}
    assert (await fleet.client.post("/account/password", headers=SAME, data=form)).status_code == 303
    assert (await _log_in(fleet, "Noa")).status_code == 303
    fleet.client.cookies.clear()
    assert (await fleet.client.post("/enter", headers=SAME, data={"token": token})).status_code == 401


# -- second factor ----------------------------------------------------------------------------------------------------


async def _code(fleet: TwoCustomers, after: int = 0) -> str:
    return second_factor.code_at(SECRET, await fleet.context.scripts.now_ms() // 30_000 + after)


async def _enrolled(fleet: TwoCustomers) -> list[str]:
    dana = await _person(fleet, "Dana", Role.OPERATOR)
    return (await accounts.confirm_enrolment(fleet.context, dana.id, SECRET, await _code(fleet, -1)))[1]


async def _enter_code(fleet: TwoCustomers, code: str) -> httpx.Response:
    return await fleet.client.post("/login/code", headers=SAME, data={"code": code})


async def test_a_password_alone_opens_nothing_when_there_is_a_second_factor(fleet: TwoCustomers) -> None:
    await _enrolled(fleet)
    assert (await _log_in(fleet, "Dana")).headers["location"] == "/login/code"
    assert (await fleet.client.get("/", headers=SAME)).status_code == 303
    assert (await _enter_code(fleet, "000000")).status_code == 401
    assert (await _enter_code(fleet, await _code(fleet))).headers["location"] == "/"
    assert (await fleet.client.get("/", headers=SAME)).status_code == 200


async def test_the_secret_of_a_second_factor_is_sealed_at_rest_and_moves_to_a_new_key(fleet: TwoCustomers) -> None:
    old, new = (SecretStr(f"{name} key of the tests, which is long enough") for name in ("the old", "the new"))
    context = fleet.context
    context.settings = context.settings.model_copy(update={"auth_key": SecretStr("")})
    await _enrolled(fleet)
    assert SECRET.hex() in str(await content(context.redis))  # as an earlier version has stored it
    for key, before in ((old, None), (new, old)):
        context.settings = context.settings.model_copy(update={"auth_key": key, "auth_key_previous": before})
        await accounts.seal_again(context)
    context.settings = context.settings.model_copy(update={"auth_key_previous": None})
    assert SECRET.hex() not in str(await content(context.redis))
    (dana,) = await people.every(context.scripts)
    assert await accounts.use_app_code(context, dana, await _code(fleet))
    (other,) = [replace(each, id="a_other") for each in await people.every(context.scripts)]
    with pytest.raises(Unavailable):  # it is bound to its account
        await accounts.use_app_code(context, other, await _code(fleet, 1))


async def test_a_secret_that_waits_to_be_confirmed_is_sealed_too(fleet: TwoCustomers) -> None:
    context = fleet.context
    context.settings = context.settings.model_copy(update={"auth_key": SecretStr("a key of the tests, long enough")})
    await accounts.begin_enrolment(context, "hash")
    stored = str(await context.redis.hget(keys.person("hash"), "enrolment"))
    secret = accounts.enrolment_secret(context, "hash", stored)
    assert (len(secret), secret.hex() in stored) == (20, False)


async def test_a_code_is_good_once(fleet: TwoCustomers) -> None:
    await _enrolled(fleet)
    code = await _code(fleet, 1)
    await _log_in(fleet, "Dana")
    assert (await _enter_code(fleet, code)).status_code == 303
    await _log_in(fleet, "Dana")
    assert (await _enter_code(fleet, code)).status_code == 401


async def test_a_recovery_code_is_good_once(fleet: TwoCustomers) -> None:
    codes = await _enrolled(fleet)
    for status in (303, 401):
        await _log_in(fleet, "Dana")
        assert (await _enter_code(fleet, codes[0].upper())).status_code == status


def _move_to(fleet: TwoCustomers, address: str) -> None:
    fleet.client._transport = httpx.ASGITransport(fleet.app, client=(address, 1))


async def _guess(fleet: TwoCustomers) -> list[int]:
    """Try wrong codes from two addresses, after many others: the pause is long by now."""
    (dana,) = await people.every(fleet.context.scripts)
    await fleet.context.redis.set(keys.code_tries(dana.id), "30")
    answers = []
    for address in ("192.0.2.1", "192.0.2.2"):
        _move_to(fleet, address)
        answers.append((await _enter_code(fleet, "000000")).status_code)
    return answers


async def test_wrong_codes_slow_the_account_down_from_whatever_address(fleet: TwoCustomers) -> None:
    await _enrolled(fleet)
    await _log_in(fleet, "Dana")
    assert await _guess(fleet) == [401, 429]
    right = await _enter_code(fleet, await _code(fleet))
    assert right.status_code == 429, "not even a right one is checked"
    assert int(right.headers["retry-after"]) > 0
    (pause,) = await fleet.context.redis.keys(keys.code_pause("*"))
    await fleet.context.redis.delete(pause)  # it is over
    assert (await _enter_code(fleet, await _code(fleet))).status_code == 303


async def test_pauses_between_codes_double_up_to_a_quarter_of_an_hour(fleet: TwoCustomers) -> None:
    scripts, pauses = fleet.context.scripts, []
    for _ in range(20):
        assert await logins.admit_code(scripts, "a_1") == logins.CodeAdmitted()
        waiting = await logins.admit_code(scripts, "a_1")
        if isinstance(waiting, logins.CodeMustWait):
            pauses.append(-(-waiting.wait_ms // 1000))
            await scripts.redis.delete(keys.code_pause("a_1"))
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, *[900] * (len(pauses) - 10)]
    assert len(pauses) > 10


async def test_who_guesses_codes_shuts_nobody_out(fleet: TwoCustomers) -> None:
    codes = await _enrolled(fleet)
    _move_to(fleet, "198.51.100.7")
    await _log_in(fleet, "Dana")
    assert (await _enter_code(fleet, await _code(fleet))).status_code == 303
    fleet.client.cookies.clear()
    await _log_in(fleet, "Dana")
    await _guess(fleet)
    _move_to(fleet, "198.51.100.7")  # where Dana has logged in before
    assert (await _enter_code(fleet, await _code(fleet, 1))).status_code == 303
    _move_to(fleet, "203.0.113.9")
    await _log_in(fleet, "Dana")
    assert (await _enter_code(fleet, await _code(fleet, 1))).status_code == 429
    assert (await _enter_code(fleet, codes[0])).status_code == 303


async def test_no_secret_of_a_person_is_in_any_answer(fleet: TwoCustomers) -> None:
    await _enrolled(fleet)
    listed = (await fleet.client.get("/api/v1/people", headers=ADMIN)).text
    assert SECRET.hex() not in listed
    assert "scrypt" not in listed


@pytest.mark.parametrize("language", ["en", "he"])
async def test_an_administrator_sees_people_logins_and_the_audit_log(fleet: TwoCustomers, language: str) -> None:
    await _person(fleet, "Dana", Role.ADMINISTRATOR)
    await _log_in(fleet, "Dana")
    headers = SAME | {"Accept-Language": language}
    for path, shown in (("/people", "Dana"), ("/audit", "Dana"), ("/account", "Dana"), ("/settings", "audit")):
        page = await fleet.client.get(path, headers=headers)
        assert page.status_code == 200, path
        assert shown in page.text, path
