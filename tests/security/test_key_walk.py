"""Every route with every kind of key: what is not decided here is closed to keys that are limited to some sessions."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

import pytest
from redis.asyncio import Redis

from tests.orchestrator.fakes import ADMIN
from tests.security.fleet import LABELS, MINE, PHONES, RECIPIENT, THEIRS, TwoCustomers, two_customers
from tests.security.streams import opened_stream
from wa_orchestrator.domain.access.permissions import Only, Reach, Scope
from wa_orchestrator.domain.messages.sender_policy import Pin
from wa_orchestrator.messages import act_runner
from wa_orchestrator.messages.session_pace import holds_on
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.access import api_keys
from wa_orchestrator.store.events import event_stream, webhooks
from wa_orchestrator.store.messages import contacts
from wa_orchestrator.web.auth import revoke_key

BY_SESSION, BY_LABEL = Only(sessions=frozenset({MINE})), Only(labels=frozenset({LABELS[MINE]}))
SCOPES: Final = (Scope.SEND, Scope.READ, Scope.OPERATE)
#: Every scope that a limited key can have, and both ways to limit one.
LIMITED: Final[list[tuple[tuple[Scope, ...], Reach]]] = [
    ((Scope.SEND,), BY_SESSION),
    ((Scope.READ,), BY_LABEL),
    ((Scope.OPERATE,), BY_SESSION),
    (SCOPES, BY_SESSION),
    (SCOPES, BY_LABEL),
]
#: The routes that are open to limited keys, with the scope that they need. Each respects the reach of the key: those of a
#: session or a message are walked below with somebody else's, the others have a test of their own.
OPEN: Final = {
    "POST /api/v1/send": Scope.SEND,
    "POST /api/send": Scope.SEND,
    "POST /api/v1/send/batch": Scope.SEND,
    "POST /api/v1/uploads": Scope.SEND,
    "POST /api/v1/opt-outs": Scope.SEND,
    "GET /api/v1/messages": Scope.READ,
    "GET /api/v1/exports/messages": Scope.READ,
    "GET /api/v1/exports/sessions": Scope.READ,
    "GET /api/v1/messages/{message_id}": Scope.SEND,
    "GET /api/v1/messages/{message_id}/status": Scope.SEND,
    "DELETE /api/v1/messages/{message_id}": Scope.SEND,
    "POST /api/v1/messages/{message_id}/retry": Scope.SEND,
    "POST /api/v1/messages/{message_id}/confirm": Scope.SEND,
    "POST /api/v1/messages/{message_id}/send-again": Scope.SEND,
    "GET /api/v1/messages/{message_id}/media": Scope.READ,
    "GET /api/v1/messages/{message_id}/thumbnail": Scope.READ,
    "POST /api/v1/messages/{message_id}/reaction": Scope.SEND,
    "POST /api/v1/messages/{message_id}/edit": Scope.SEND,
    "POST /api/v1/messages/{message_id}/delete": Scope.SEND,
    "POST /api/v1/messages/{message_id}/read": Scope.SEND,
    "POST /api/sessions/{session_id}/typing": Scope.SEND,
    "POST /api/sessions/{session_id}/number-check": Scope.SEND,
    "POST /api/sessions/{session_id}/profile-picture": Scope.SEND,
    "POST /api/sessions/{session_id}/block": Scope.SEND,
    "GET /api/sessions/{session_id}/groups": Scope.READ,
    "POST /api/sessions/{session_id}/groups": Scope.OPERATE,
    "GET /api/sessions/{session_id}/groups/{group_id}": Scope.READ,
    "PATCH /api/sessions/{session_id}/groups/{group_id}": Scope.OPERATE,
    "POST /api/sessions/{session_id}/groups/{group_id}/leave": Scope.OPERATE,
    "DELETE /api/sessions/{session_id}/groups/{group_id}/members/{member}": Scope.OPERATE,
    "GET /api/sessions/{session_id}/groups/{group_id}/link": Scope.OPERATE,
    "POST /api/sessions/{session_id}/groups/{group_id}/link": Scope.OPERATE,
    "GET /api/sessions/{session_id}/groups/{group_id}/join-requests": Scope.READ,
    "POST /api/sessions/{session_id}/groups/{group_id}/join-requests": Scope.OPERATE,
    "GET /api/v1/queue": Scope.READ,
    "DELETE /api/v1/queue": Scope.SEND,
    "GET /api/v1/queue/{session_id}": Scope.READ,
    "DELETE /api/v1/queue/{session_id}": Scope.SEND,
    "GET /api/v1/stats": Scope.READ,
    "GET /api/v1/stats/{session_id}": Scope.READ,
    "GET /api/sessions": Scope.READ,
    "GET /api/sessions/{session_id}": Scope.READ,
    "GET /api/sessions/{session_id}/status": Scope.READ,
    "GET /api/sessions/{session_id}/history": Scope.READ,
    "GET /api/sessions/{session_id}/health": Scope.READ,
    "GET /api/sessions/{session_id}/qr": Scope.OPERATE,
    "POST /api/sessions/{session_id}/pairing-code": Scope.OPERATE,
    "POST /api/sessions/{session_id}/scan-link": Scope.OPERATE,
    "DELETE /api/sessions/{session_id}/scan-link": Scope.OPERATE,
    "POST /api/sessions/{session_id}/restart": Scope.OPERATE,
    "POST /api/sessions/{session_id}/stop": Scope.OPERATE,
    "POST /api/sessions/{session_id}/start": Scope.OPERATE,
    "POST /api/sessions/{session_id}/logout": Scope.OPERATE,
    "GET /api/anti-ban/sessions/{session_id}/limits": Scope.READ,
    "POST /api/anti-ban/holds": Scope.OPERATE,
    "DELETE /api/anti-ban/holds/{target}": Scope.OPERATE,
    "GET /api/v1/conversations": Scope.READ,
    "GET /api/v1/conversations/{conversation_id}": Scope.READ,
    "GET /api/v1/conversations/{conversation_id}/messages": Scope.READ,
    "PATCH /api/v1/conversations/{conversation_id}": Scope.OPERATE,
    "POST /api/v1/conversations/{conversation_id}/read": Scope.OPERATE,
    "GET /api/v1/contacts": Scope.READ,
    "GET /api/v1/events": Scope.READ,
    "GET /api/v1/events/stream": Scope.READ,
}
#: The routes that are about the whole fleet, with the scope that they need. Closed to limited keys. A new route is in
#: neither list, and the walk fails until somebody has decided.
CLOSED: Final = {
    Scope.READ: {
        "GET /api/v1/proxies",
        "GET /api/v1/proxies/{proxy_id}",
        "GET /api/v1/backups",
        "GET /api/v1/campaigns",
        "GET /api/v1/campaigns/{campaign_id}",
        "GET /api/v1/campaigns/{campaign_id}/recipients",
        "GET /api/v1/exports/opt-outs",
        "GET /api/v1/opt-outs",
        "GET /api/v1/quick-replies",
        "GET /api/v1/radar",
        "GET /api/v1/inventory",
        "GET /api/v1/jobs",
        "GET /api/v1/nodes",
        "GET /api/v1/dashboard/sessions",
        "GET /api/v1/dashboard/stats",
        "GET /api/anti-ban/presets",
        "GET /api/anti-ban/holds",
        "GET /api/anti-ban/tag-limits",
    },
    Scope.OPERATE: {
        "POST /api/sessions/provision",
        "POST /api/sessions/import",
        "POST /api/sessions/import-list",
        "PATCH /api/sessions/{session_id}",
        "PUT /api/sessions/{session_id}/presence",
        "POST /api/sessions/{session_id}/move",
        "POST /api/sessions/{session_id}/confirm-phone",
        "DELETE /api/sessions/{session_id}",
        "POST /api/sessions/{session_id}/restore-credentials",
        "POST /api/v1/campaigns",
        "POST /api/v1/campaigns/{campaign_id}/start",
        "POST /api/v1/campaigns/{campaign_id}/pause",
        "POST /api/v1/campaigns/{campaign_id}/resume",
        "POST /api/v1/campaigns/{campaign_id}/cancel",
        "POST /api/v1/proxies",
        "POST /api/v1/proxies/import",
        "PATCH /api/v1/proxies/{proxy_id}",
        "DELETE /api/v1/proxies/{proxy_id}",
        "POST /api/v1/proxies/{proxy_id}/check",
        "POST /api/v1/proxies/{proxy_id}/reinstate",
        "POST /api/v1/inventory/profiles",
        "DELETE /api/v1/inventory/profiles",
        "POST /api/v1/opt-outs/import",
        "DELETE /api/v1/opt-outs/{recipient}",
        "PUT /api/anti-ban/sessions/{session_id}/limits",
        "PUT /api/anti-ban/sessions/{session_id}/timezone",
        "DELETE /api/anti-ban/sessions/{session_id}/limits",
        "PUT /api/anti-ban/tag-limits",
        "DELETE /api/anti-ban/tag-limits",
        "PUT /api/v1/quick-replies/{name}",
        "DELETE /api/v1/quick-replies/{name}",
    },
    Scope.ADMIN: {
        "GET /api/sessions/{session_id}/passkey",
        "POST /api/sessions/{session_id}/passkey",
        "POST /api/sessions/{session_id}/passkey/confirm",
        "GET /api/v1/keys",
        "POST /api/v1/keys",
        "DELETE /api/v1/keys/{key_id}",
        "GET /api/v1/people",
        "POST /api/v1/people",
        "PATCH /api/v1/people/{person_id}",
        "DELETE /api/v1/people/{person_id}",
        "POST /api/v1/people/{person_id}/link",
        "DELETE /api/v1/people/{person_id}/second-factor",
        "GET /api/v1/logins",
        "DELETE /api/v1/logins/{login_id}",
        "GET /api/v1/audit",
        "GET /api/v1/audit/verification",
        "GET /api/v1/audit/export",
        "GET /api/v1/exports/audit",
        "GET /api/v1/trash",
        "POST /api/v1/trash/{trash_id}/restore",
        "GET /api/v1/simulator",
        "POST /api/v1/jobs/{name}/run",
        "POST /api/v1/nodes/{name}/drain",
        "POST /api/v1/nodes/{name}/activate",
        "GET /api/v1/backups/download/{backup_id}",
        "POST /api/v1/backups/create",
        "POST /api/v1/backups/restore/{backup_id}",
        "GET /api/v1/webhooks",
        "POST /api/v1/webhooks",
        "PATCH /api/v1/webhooks/{webhook_id}",
        "DELETE /api/v1/webhooks/{webhook_id}",
        "POST /api/v1/webhooks/{webhook_id}/enable",
        "POST /api/v1/webhooks/{webhook_id}/rotate-secret",
        "GET /api/v1/webhooks/{webhook_id}/deliveries",
        "POST /api/v1/webhooks/{webhook_id}/deliveries/{number}/replay",
        "GET /api/v1/contacts/{phone}/export",
        "DELETE /api/v1/contacts/{phone}",
        "POST /api/v1/dashboard/test-alert",
    },
}
NEEDED: Final = OPEN | {name: scope for scope, names in CLOSED.items() for name in names}
#: A stream without end: it is walked until its answer begins.
ENDLESS: Final = "GET /api/v1/events/stream"
_PARAMETER = re.compile(r"{(\w+)(?::\w+)?}")


@pytest.fixture
async def fleet(redis: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[TwoCustomers]:
    monkeypatch.setattr(act_runner, "TIMEOUT_S", 0.01)  # no worker runs that would answer
    made = await two_customers(redis, tmp_path)
    yield made
    await made.client.aclose()


def _filled(fleet: TwoCustomers, path: str, whose: str) -> str:
    message = fleet.received[whose] if path.endswith(("/media", "/thumbnail")) else fleet.messages[whose]
    values = {"session_id": whose, "message_id": message, "target": f"session:{whose}"}
    values |= {"conversation_id": fleet.conversations[whose], "group_id": "120363025246125486@g.us"}
    values["member"] = RECIPIENT
    return _PARAMETER.sub(lambda found: values.get(found[1], "p_000000000000"), path)


async def _ask(fleet: TwoCustomers, method: str, path: str, headers: dict[str, str]) -> tuple[int, str]:
    """Return the status of an answer and the code of its error."""
    if f"{method} {path}" == ENDLESS:
        async with _stream(fleet, headers) as (status, chunks):
            return status, json.loads(await anext(chunks))["error"]["code"] if status != 200 else ""
    answer = await fleet.client.request(method, path, headers=headers, json=None if method == "GET" else {})
    is_json = "json" in answer.headers.get("content-type", "")
    body: Any = answer.json() if is_json else {}
    return answer.status_code, body["error"]["code"] if answer.is_error else ""


def _stream(
    fleet: TwoCustomers, headers: dict[str, str]
) -> AbstractAsyncContextManager[tuple[int, AsyncIterator[bytes]]]:
    """Open the stream of events from the first one on."""
    return opened_stream(fleet.app, "/api/v1/events/stream", "after=0-0", headers)


def _is_keyed(route: Any) -> bool:
    return not {"health", "workers"} & set(route.tags)


def _walk(fleet: TwoCustomers) -> list[tuple[str, str]]:
    """Every route that takes a key: method and path."""
    return [(method, path) for method, path, route in fleet.routes() if _is_keyed(route)]


async def test_somebody_has_decided_about_every_route(fleet: TwoCustomers) -> None:
    assert {f"{method} {path}" for method, path in _walk(fleet)} == set(NEEDED)


@pytest.mark.parametrize(("scopes", "reach"), LIMITED)
async def test_every_route_refuses_a_limited_key_what_is_not_its_own(
    fleet: TwoCustomers, scopes: tuple[Scope, ...], reach: Reach
) -> None:
    headers, wrong = await fleet.key(*scopes, reach=reach), []
    for method, path in _walk(fleet):
        name = f"{method} {path}"
        answer = await _ask(fleet, method, _filled(fleet, path, THEIRS), headers)
        if NEEDED[name] not in scopes:
            as_decided = answer == (403, "SCOPE_MISSING")
        elif name not in OPEN:
            as_decided = answer == (403, "KEY_LIMITED")
        elif "{session_id}" in path or "{target}" in path:
            as_decided = answer == (404, "NO_SUCH_SESSION")
        elif "{message_id}" in path:
            as_decided = answer == (404, "NO_SUCH_MESSAGE")
        elif "{conversation_id}" in path:
            as_decided = answer == (404, "NO_SUCH_CONVERSATION")
        else:
            as_decided = answer[0] != 403
        if not as_decided:
            wrong.append((name, answer))
    assert wrong == []


async def test_every_open_route_serves_its_own_session(fleet: TwoCustomers) -> None:
    headers = await fleet.key(*SCOPES, reach=BY_LABEL)
    for name in OPEN:
        method, path = name.split(" ")
        # What changes a session is tried by the tests of sessions, what a worker answers by those of groups.
        if method == "GET" and not path.endswith("/qr") and "/groups" not in path:
            assert await _ask(fleet, method, _filled(fleet, path, MINE), headers) == (200, ""), name


@pytest.mark.parametrize("scope", Scope)
async def test_an_unlimited_key_is_refused_by_its_scopes_alone(fleet: TwoCustomers, scope: Scope) -> None:
    headers, wrong = await fleet.key(scope), []
    for method, path in _walk(fleet):
        needed = NEEDED[f"{method} {path}"]
        may = scope in (needed, Scope.ADMIN)
        if may and method != "GET":
            continue  # it would change what the walk needs
        status, code = await _ask(fleet, method, _filled(fleet, path, THEIRS), headers)
        if may is (status in (401, 403)) or code == "KEY_LIMITED":
            wrong.append((method, path, status, code))
    assert wrong == []


async def test_no_keyed_route_answers_without_a_key_or_with_a_dead_one(fleet: TwoCustomers) -> None:
    revoked = await fleet.key(Scope.ADMIN)
    found = await api_keys.every(fleet.context.scripts)
    await api_keys.revoke(fleet.context.scripts, found[0].id)
    expired = await fleet.key(Scope.ADMIN, expires_at_ms=await fleet.context.scripts.now_ms() - 1)
    for headers, code in (({}, "API_KEY_MISSING"), (revoked, "API_KEY_UNKNOWN"), (expired, "API_KEY_UNKNOWN")):
        for method, path in _walk(fleet):
            answer = await _ask(fleet, method, _filled(fleet, path, MINE), headers)
            assert answer == (401, code), f"{method} {path}"


# -- what the open routes show ----------------------------------------------------------------------------------------


@pytest.fixture(params=[BY_SESSION, BY_LABEL], ids=["by session", "by label"])
async def mine(fleet: TwoCustomers, request: pytest.FixtureRequest) -> dict[str, str]:
    """The header of a customer's key."""
    reach: Reach = request.param
    return await fleet.key(*SCOPES, reach=reach)


async def test_lists_and_counts_have_nothing_of_others(fleet: TwoCustomers, mine: dict[str, str]) -> None:
    listed = (await fleet.client.get("/api/sessions", headers=mine)).json()
    assert ([each["sessionId"] for each in listed["sessions"]], listed["total"]) == ([MINE], 1)
    for path in ("/api/v1/messages", f"/api/v1/messages?to={RECIPIENT}", "/api/v1/messages?status=queued"):
        page = (await fleet.client.get(path, headers=mine)).json()
        assert [each["messageId"] for each in page["messages"]] == [fleet.messages[MINE]], path
    assert (await fleet.client.get(f"/api/v1/messages?sessionId={THEIRS}", headers=mine)).json()["messages"] == []
    waiting = (await fleet.client.get("/api/v1/queue", headers=mine)).json()
    assert (waiting["total"], waiting["messages"][0]["messageId"]) == (1, fleet.messages[MINE])


async def test_conversations_and_contacts_of_others_are_not_listed(fleet: TwoCustomers, mine: dict[str, str]) -> None:
    for number, name in enumerate(PHONES):
        said = contacts.Incoming(
            name, PHONES[name], "3A05", "text", f"97253333333{number}", name="Dana", fields={"text": "blue"}
        )
        await contacts.receive(fleet.context.scripts, said, keep_ms=60_000)
    for path in ("/api/v1/conversations", "/api/v1/conversations?search=dana", "/api/v1/conversations?search=blue"):
        page = (await fleet.client.get(path, headers=mine)).json()
        assert ([each["sessionId"] for each in page["conversations"]], page["waiting"]) == ([MINE], 1), path
    theirs = (await fleet.client.get(f"/api/v1/conversations?sessionId={THEIRS}", headers=mine)).json()
    assert (theirs["conversations"], theirs["waiting"]) == ([], 0)
    listed = (await fleet.client.get("/api/v1/contacts", headers=mine)).json()
    assert [each["contact"]["phone"] for each in listed["contacts"]] == ["972533333330"]


async def test_a_file_has_nothing_of_others(fleet: TwoCustomers, mine: dict[str, str]) -> None:
    for what, own in (("messages", fleet.messages[MINE]), ("sessions", MINE)):
        for form in ("csv", "jsonl"):
            asked = await fleet.client.get(f"/api/v1/exports/{what}?format={form}", headers=mine)
            assert own in asked.text
            assert fleet.messages[THEIRS] not in asked.text
            assert THEIRS not in asked.text
            everything = await fleet.client.get(f"/api/v1/exports/{what}?format={form}", headers=ADMIN)
            assert THEIRS in everything.text
    rows = (await fleet.client.get("/api/v1/exports/sessions?format=jsonl", headers=mine)).text.splitlines()
    assert [json.loads(each)["proxyId"] for each in rows] == [None]


async def test_opt_outs_come_and_go_as_files_and_the_audit_log_says_so(fleet: TwoCustomers) -> None:
    text = f"phone\n{RECIPIENT}\n{RECIPIENT}\n0501234567\n"
    answer = (await fleet.client.post("/api/v1/opt-outs/import", headers=ADMIN, json={"text": text})).json()
    assert (answer["added"], answer["known"], answer["cancelled"]) == (1, 0, 2)
    assert [each["line"] for each in answer["errors"]] == [4]
    again = (await fleet.client.post("/api/v1/opt-outs/import", headers=ADMIN, json={"text": RECIPIENT})).json()
    assert (again["added"], again["known"]) == (0, 1)
    assert (await fleet.send(ADMIN)).json()["error"]["code"] == "OPTED_OUT"
    exported = (await fleet.client.get("/api/v1/exports/opt-outs", headers=ADMIN)).text
    assert f"\n{RECIPIENT}," in exported
    audit = (await fleet.client.get("/api/v1/exports/audit", headers=ADMIN)).text
    assert "opt_out.import" in audit
    assert audit.count("data.export") == 2


async def test_a_cursor_names_no_message_of_others(fleet: TwoCustomers, mine: dict[str, str]) -> None:
    for _ in range(3):
        await fleet.send(ADMIN, sessionId=THEIRS)
        await fleet.send(ADMIN, sessionId=MINE)
    seen, cursor = [], None
    while True:
        query = {"limit": "1", "to": RECIPIENT} | ({"cursor": cursor} if cursor else {})
        page = (await fleet.client.get("/api/v1/messages", headers=mine, params=query)).json()
        seen += [each["sessionId"] for each in page["messages"]]
        if (cursor := page["next"]) is None:
            break
    assert seen == [MINE] * 4


async def test_emptying_by_recipient_cancels_only_ones_own(fleet: TwoCustomers, mine: dict[str, str]) -> None:
    answer = await fleet.client.delete(f"/api/v1/queue?to={RECIPIENT}", headers=mine)
    assert answer.json() == {"cancelled": 1, "tooLate": 0}
    other = await records.message(fleet.context.scripts, fleet.messages[THEIRS])
    assert other is not None
    assert other.status == "queued"


async def test_a_message_leaves_from_a_session_of_the_key(fleet: TwoCustomers, mine: dict[str, str]) -> None:
    refused = [await fleet.send(mine, sessionId=THEIRS), await fleet.send(mine, phone=PHONES[THEIRS])]
    assert [each.json()["error"]["code"] for each in refused] == ["NO_SUCH_SESSION", "NO_SUCH_PHONE"]
    # The other customer has the conversation, and the most room.
    await fleet.context.redis.set(keys.affinity(RECIPIENT), THEIRS)
    for _ in range(3):
        accepted = await fleet.send(mine)
        assert accepted.json()["sessionId"] == MINE
    sent = await records.message(fleet.context.scripts, accepted.json()["messageId"])
    assert sent is not None
    assert sent.pinned == Pin.PHONE  # it never moves to a phone of others


async def test_each_message_of_a_batch_is_limited(fleet: TwoCustomers, mine: dict[str, str]) -> None:
    messages = [
        {"to": RECIPIENT, "message": "hello"} | more for more in ({}, {"sessionId": THEIRS}, {"sessionId": MINE})
    ]
    answer = await fleet.client.post("/api/v1/send/batch", headers=mine, json={"messages": messages})
    items = answer.json()["items"]
    assert [each.get("sessionId") for each in items] == [MINE, None, MINE]
    assert items[1]["error"]["code"] == "NO_SUCH_SESSION"


async def test_a_file_of_another_key_cannot_be_sent(fleet: TwoCustomers, mine: dict[str, str]) -> None:
    files = {
        name: (
            await fleet.client.post("/api/v1/uploads", headers=headers | {"Content-Type": "image/png"}, content=b"x")
        )
        for name, headers in (("own", mine), ("other", ADMIN))
    }
    media = {name: {"upload": answer.json()["uploadId"]} for name, answer in files.items()}
    sent = [
        await fleet.client.post("/api/v1/send", headers=mine, json={"to": RECIPIENT, "media": media[name]})
        for name in ("own", "other")
    ]
    assert [each.status_code for each in sent] == [202, 422]


async def test_events_are_those_of_ones_sessions_without_proxies(fleet: TwoCustomers, mine: dict[str, str]) -> None:
    page = (await fleet.client.get("/api/v1/events", headers=mine)).json()
    assert {each["data"]["sessionId"] for each in page["events"]} == {MINE}
    moved: dict[Any, Any] = {
        "type": "session.moved", "at": 1, "session": MINE, "reason": "DRAINED", "from": "p_1", "to": "p_2", "phone": "1",
    }  # fmt: skip
    await fleet.context.redis.xadd(keys.EVENTS, moved)
    await fleet.context.redis.xadd(keys.EVENTS, {"type": "proxy.bad", "at": 1, "proxy": "p_1", "reason": ""})
    after = page["next"]
    later = (await fleet.client.get(f"/api/v1/events?after={after}", headers=mine)).json()["events"]
    assert [each["type"] for each in later] == ["session.moved"]
    assert (later[0]["data"]["from"], later[0]["data"]["to"]) == ("", "")


async def test_a_session_is_shown_without_its_proxy(fleet: TwoCustomers, mine: dict[str, str]) -> None:
    await fleet.context.redis.hset(keys.session(MINE), "proxy", "p_1")
    shown = (await fleet.client.get(f"/api/sessions/{MINE}", headers=mine)).json()
    listed = (await fleet.client.get("/api/sessions", headers=mine)).json()["sessions"][0]
    assert {each["proxyId"] for each in (shown, listed)} == {None}
    assert (await fleet.client.get("/api/sessions?proxy=p_1", headers=mine)).json()["sessions"] == []


async def test_an_opt_out_holds_for_all_but_counts_only_ones_own(fleet: TwoCustomers, mine: dict[str, str]) -> None:
    added = await fleet.client.post("/api/v1/opt-outs", headers=mine, json={"phone": RECIPIENT})
    assert (added.status_code, added.json()["cancelled"]) == (201, 1)
    assert (await fleet.send(ADMIN, sessionId=THEIRS)).json()["error"]["code"] == "OPTED_OUT"
    removed = await fleet.client.delete(f"/api/v1/opt-outs/{RECIPIENT}", headers=mine)
    assert removed.json()["error"]["code"] == "KEY_LIMITED"


@pytest.mark.parametrize("body", [{"all": True}, {"group": LABELS[MINE]}, {"sessionId": THEIRS}])
async def test_only_ones_own_session_can_be_paused(
    fleet: TwoCustomers, mine: dict[str, str], body: dict[str, Any]
) -> None:
    assert (await fleet.client.post("/api/anti-ban/holds", headers=mine, json=body)).status_code in (403, 404)
    paused = await fleet.client.post("/api/anti-ban/holds", headers=mine, json={"sessionId": MINE})
    assert paused.status_code == 201
    for target in ("all", f"phone:{PHONES[MINE]}"):  # the second is where the hold after a ban is
        assert (await fleet.client.delete(f"/api/anti-ban/holds/{target}", headers=mine)).status_code == 403
    assert (await fleet.client.delete(f"/api/anti-ban/holds/session:{MINE}", headers=mine)).status_code == 200


async def test_a_key_that_is_limited_to_a_tag_reaches_the_sessions_that_have_it(fleet: TwoCustomers) -> None:
    by_tag = await fleet.key(*SCOPES, reach=Only(labels=frozenset({"haifa"})))

    async def reached() -> list[str]:
        found = (await fleet.client.get("/api/sessions", headers=by_tag)).json()["sessions"]
        return [each["sessionId"] for each in found]

    assert await reached() == []
    tagged = {"tags": ["haifa", "vip"], "notes": "owes us money"}
    assert (await fleet.client.patch(f"/api/sessions/{THEIRS}", headers=ADMIN, json=tagged)).status_code == 200
    assert await reached() == [THEIRS]
    shown = (await fleet.client.get(f"/api/sessions/{THEIRS}", headers=by_tag)).json()
    assert shown["notes"] is None  # what the operators wrote is not for customers
    answer = await fleet.client.patch(f"/api/sessions/{THEIRS}", headers=by_tag, json={"tags": ["haifa"]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "KEY_LIMITED")
    await fleet.client.patch(f"/api/sessions/{THEIRS}", headers=ADMIN, json={"tags": []})
    assert await reached() == []


async def test_a_hold_on_a_tag_holds_its_sessions_and_lets_go_of_one_that_loses_it(fleet: TwoCustomers) -> None:
    path = f"/api/sessions/{MINE}"
    await fleet.client.patch(path, headers=ADMIN, json={"tags": ["haifa"]})
    held = await fleet.client.post("/api/anti-ban/holds", headers=ADMIN, json={"group": "haifa"})
    assert held.status_code == 201, held.text

    async def waits() -> list[str]:
        session = await records.session(fleet.context.scripts, MINE)
        assert session is not None
        found = await records.holds(fleet.context.scripts)
        return [wait.because for wait in holds_on(found, session, await fleet.context.scripts.now_ms())]

    assert await waits() == ["HELD"]
    await fleet.context.redis.delete(keys.DUE)
    await fleet.client.patch(path, headers=ADMIN, json={"tags": []})
    assert await fleet.context.redis.zscore(keys.DUE, PHONES[MINE]) is not None  # somebody looks at its queue again
    assert await waits() == []
    unknown = await fleet.client.post("/api/anti-ban/holds", headers=ADMIN, json={"group": "haifa"})
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "NO_SUCH_GROUP")


async def test_a_limited_key_cannot_start_a_banned_session(fleet: TwoCustomers, mine: dict[str, str]) -> None:
    await fleet.context.redis.hset(keys.session(MINE), mapping={"banned": "1", "status": "failed", "reason": "BANNED"})
    answer = await fleet.client.post(f"/api/sessions/{MINE}/start", headers=mine, json={"confirm": "BANNED"})
    assert answer.json()["error"]["code"] == "CONFIRMATION_REQUIRED"


async def test_statistics_count_ones_own_sessions(fleet: TwoCustomers, mine: dict[str, str]) -> None:
    redis, today = (
        fleet.context.redis,
        (await fleet.client.get("/api/v1/stats", headers=mine)).json()["days"][0]["date"],
    )
    for name, sent in ((MINE, 2), (THEIRS, 40)):
        await redis.hset(keys.stats(name, today.replace("-", "")), "sent", str(sent))
    await redis.hset(keys.day_stats(today.replace("-", "")), "failed", "7")
    total = (await fleet.client.get("/api/v1/stats", headers=mine)).json()["total"]
    assert (total["sent"], total["failed"], total["failedWithoutSender"]) == (2, 0, 0)


# -- keys and webhooks ------------------------------------------------------------------------------------------------


async def test_a_key_is_made_with_its_limits_and_shows_its_last_use(fleet: TwoCustomers) -> None:
    body = {"name": "CRM", "scopes": ["send"], "labels": [LABELS[MINE]], "expiresInDays": 90}
    made = (await fleet.client.post("/api/v1/keys", headers=ADMIN, json=body)).json()
    assert (made["labels"], made["sessions"], made["lastUsedAt"]) == ([LABELS[MINE]], [], None)
    assert made["expiresAt"]
    assert (await fleet.send({"X-API-Key": made["key"]})).status_code == 202
    listed = (await fleet.client.get("/api/v1/keys", headers=ADMIN)).json()["keys"]
    assert listed[0]["lastUsedAt"]


async def test_an_administrators_key_cannot_be_limited(fleet: TwoCustomers) -> None:
    body = {"name": "CRM", "scopes": ["admin"], "sessions": [MINE]}
    answer = await fleet.client.post("/api/v1/keys", headers=ADMIN, json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "LIMITED_ADMIN")


async def test_a_stream_has_the_events_of_ones_sessions(fleet: TwoCustomers, mine: dict[str, str]) -> None:
    seen = b""
    async with _stream(fleet, mine) as (status, chunks):
        assert status == 200
        async for chunk in chunks:
            seen += chunk
            if fleet.messages[MINE].encode() in seen:
                break
        await fleet.send(ADMIN, sessionId=THEIRS)
        last = (await fleet.send(ADMIN, sessionId=MINE)).json()["messageId"].encode()
        async for chunk in chunks:
            seen += chunk
            if last in seen:
                break
    assert THEIRS.encode() not in seen


async def test_a_stream_ends_when_its_key_is_revoked(fleet: TwoCustomers, mine: dict[str, str]) -> None:
    async with _stream(fleet, mine) as (_, chunks):
        await anext(chunks)
        (key,) = await api_keys.every(fleet.context.scripts)
        await revoke_key(fleet.context, key.id)
        await fleet.send(ADMIN, sessionId=MINE)  # it wakes the stream
        last = b"first"
        while last:  # the end of an answer is an empty piece
            last = await anext(chunks)


async def test_a_webhook_gets_the_events_of_its_sessions(fleet: TwoCustomers) -> None:
    from wa_orchestrator.orchestrator.notifications.webhooks import WebhookDeliverer

    hooks = {
        name: webhooks.Webhook(name, "https://crm.example.com/", ("*",), "whsec_AAAA", "0", 1, *limits)
        for name, limits in (("all", ()), ("session", ((MINE,), ())), ("label", ((), (LABELS[MINE],))))
    }
    entries = await event_stream.read(fleet.context.scripts)
    made = await WebhookDeliverer(fleet.context)._deliveries(list(hooks.values()), entries)
    of = {name: {THEIRS in each.body for each in made if each.webhook == name} for name in hooks}
    assert of == {"all": {False, True}, "session": {False}, "label": {False}}
