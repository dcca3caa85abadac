"""Sending one message: what is taken, what is refused, and with which words."""

import asyncio
import json
from typing import Any

import pytest

from tests.conftest import Clock
from tests.gateway.conftest import API_KEY, BOTH_MODES, NOON_MS, PHONE, Gate, OpenGate, code_of
from wa_orchestrator.domain.access.permissions import Only, Scope
from wa_orchestrator.domain.messages import content
from wa_orchestrator.gateway.senders.sender_pool import FRESH_S
from wa_orchestrator.store import keys, records, sessions
from wa_orchestrator.store.access import api_keys
from wa_orchestrator.store.outcomes import Written
from wa_orchestrator.web.auth import revoke_key

DAY_MS = 86_400_000
pytestmark = BOTH_MODES


async def test_a_message_is_queued_and_the_answer_says_where_and_when(gate: Gate) -> None:
    response = await gate.send(reference="order-1")
    assert response.status_code == 202
    told = response.json()
    assert set(told) == {"queued", "messageId", "sessionId", "position", "eta", "because"}
    assert (told["queued"], told["sessionId"], told["position"], told["because"]) == (True, "w1", 1, "NOTHING")
    assert told["eta"] == "2025-06-15T12:00:00.000Z"
    message = await records.message(gate.scripts, told["messageId"])
    assert message is not None
    assert (message.to, message.phone, message.status) == ("972511111111", PHONE, "queued")
    assert message.whatsapp_id == "3EB0" + told["messageId"].removeprefix("m_").upper()
    stored = {name: getattr(message, name) for name in ("kind", "reference", "api_key", "pinned", "why")}
    assert stored == {"kind": "text", "reference": "order-1", "api_key": "configured", "pinned": "", "why": "MOST_ROOM"}
    assert json.loads(message.body)["text"] == "hello"
    assert await gate.queued() == [told["messageId"]]


async def test_both_paths_and_both_names_of_the_text_send(gate: Gate) -> None:
    body = {"to": "+972 51-111-1111", "text": "hello"}
    response = await gate.client.post("/api/send", json=body)
    assert response.status_code == 202
    message = await records.message(gate.scripts, response.json()["messageId"])
    assert message is not None
    assert message.to == "972511111111"


async def test_a_bearer_token_is_as_good_as_the_header(gate: Gate) -> None:
    response = await gate.client.post(
        "/api/v1/send",
        json={"to": "972511111111", "text": "x"},
        headers={"X-API-Key": "", "Authorization": f"Bearer {API_KEY}"},
    )
    assert response.status_code == 202


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"X-API-Key": ""}, 401, "API_KEY_MISSING"),
        ({"X-API-Key": API_KEY + "x"}, 401, "API_KEY_UNKNOWN"),
        ({"X-API-Key": "", "Authorization": "Basic abc"}, 401, "API_KEY_MISSING"),
    ],
)
async def test_nobody_sends_without_a_key(gate: Gate, headers: dict[str, str], status: int, code: str) -> None:
    response = await gate.send(headers=headers)
    assert (response.status_code, code_of(response)) == (status, code)
    assert await gate.queued() == []


async def test_a_key_that_may_only_read_does_not_send(gate: Gate) -> None:
    _, secret = await api_keys.create(gate.gateway.context.scripts, "reader", [Scope.READ])
    response = await gate.send(headers={"X-API-Key": secret})
    assert (response.status_code, code_of(response)) == (403, "SCOPE_MISSING")


async def test_a_key_of_its_own_sends_under_its_own_name(gate: Gate) -> None:
    record, secret = await api_keys.create(gate.gateway.context.scripts, "crm", [Scope.SEND])
    response = await gate.send(headers={"X-API-Key": secret})
    message = await records.message(gate.scripts, response.json()["messageId"])
    assert message is not None
    assert message.api_key == record.id


async def test_a_key_that_was_taken_back_sends_nothing_more(gate: Gate) -> None:
    record, secret = await api_keys.create(gate.gateway.context.scripts, "crm", [Scope.SEND])
    assert (await gate.send(headers={"X-API-Key": secret})).status_code == 202
    await revoke_key(gate.gateway.context, record.id)
    response = await gate.send(headers={"X-API-Key": secret})
    assert (response.status_code, code_of(response)) == (401, "API_KEY_UNKNOWN")


BAD: list[tuple[dict[str, Any], set[str]]] = [
    ({"to": "123"}, {"to"}),
    ({"to": "abc", "message": ""}, {"to", "message"}),
    ({"to": None}, {"to"}),
    ({"to": 972511111111}, {"to"}),
    ({"message": "x" * 4097}, {"message"}),
    ({"message": "   "}, {"message"}),
    ({"message": None}, {"message"}),
    ({"message": None, "text": "a", "location": {"latitude": 1, "longitude": 2}}, {"location"}),
    ({"text": "again"}, {"text"}),
    ({"colour": "red", "size": 3}, {"colour", "size"}),
    ({"priority": 4}, {"priority"}),
    ({"priority": "1"}, {"priority"}),
    ({"onLimit": "wait"}, {"onLimit"}),
    ({"sessionId": "../etc"}, {"sessionId"}),
    ({"phone": "12"}, {"phone"}),
    ({"reference": ""}, {"reference"}),
    ({"reference": "a\nb"}, {"reference"}),
    ({"reference": "r" * 201}, {"reference"}),
    ({"idempotencyKey": ""}, {"idempotencyKey"}),
    ({"sendAt": "tomorrow"}, {"sendAt"}),
    ({"sendAt": "2025-06-15T12:00:00"}, {"sendAt"}),
    ({"sendAt": NOON_MS + 400 * DAY_MS}, {"sendAt"}),
    ({"expiresAt": NOON_MS - 1}, {"expiresAt"}),
    ({"expiresAt": True}, {"expiresAt"}),
    ({"expiresAt": 1.0, "sendAt": False}, {"expiresAt", "sendAt"}),
    ({"sendAt": NOON_MS + 2000, "expiresAt": NOON_MS + 1000}, {"expiresAt"}),
    ({"message": None, "media": {"url": "https://a.example/x", "upload": "u_" + "0" * 32}}, {"media"}),
    ({"message": None, "media": {"mimetype": "image/png"}}, {"media"}),
    ({"message": None, "media": {"upload": "u_1", "mimetype": "png"}}, {"media.upload", "media.mimetype"}),
    ({"message": None, "media": {"upload": "u_" + "0" * 32, "caption": "c" * 1025}}, {"media.caption"}),
    ({"message": "x", "media": {"upload": "u_" + "0" * 32}}, {"media"}),
    ({"message": None, "location": {"latitude": 91, "longitude": -181}}, {"location.latitude", "location.longitude"}),
    ({"message": None, "location": {"latitude": 1}}, {"location.longitude"}),
    ({"to": "1", "priority": 9, "expiresAt": 5, "extra": 1}, {"to", "priority", "expiresAt", "extra"}),
]


@pytest.mark.parametrize(("body", "paths"), BAD)
async def test_all_errors_of_a_request_come_at_once_each_with_its_path(
    gate: Gate, body: dict[str, Any], paths: set[str]
) -> None:
    response = await gate.send(**body)
    assert (response.status_code, code_of(response)) == (422, "VALIDATION_FAILED")
    errors = response.json()["error"]["errors"]
    assert {each["path"] for each in errors} == paths
    assert all(each["message"] for each in errors)
    assert await gate.queued() == []


@pytest.mark.parametrize("raw", [b"", b"{", b"not json", b'{"to": "972511111111", "text": "\xff"}'])
async def test_what_is_no_json_is_told_so(gate: Gate, raw: bytes) -> None:
    response = await gate.client.post("/api/v1/send", content=raw)
    assert (response.status_code, code_of(response)) == (400, "BAD_JSON")


@pytest.mark.parametrize("raw", [b"[]", b"null", b"7", b'"x"'])
async def test_json_that_is_no_object_is_refused(gate: Gate, raw: bytes) -> None:
    response = await gate.client.post("/api/v1/send", content=raw)
    assert response.status_code == 422


async def test_a_body_that_is_too_long_is_refused(gate: Gate) -> None:
    response = await gate.client.post("/api/v1/send", content=b"x" * 300_000)
    assert (response.status_code, code_of(response)) == (413, "BODY_TOO_LONG")


async def test_a_text_of_4096_signs_of_any_kind_is_taken(gate: Gate) -> None:
    text = 'שלום \u0000"\\\n🙂' + "א" * 4000
    response = await gate.client.post(
        "/api/v1/send", content=json.dumps({"to": "972511111111", "message": text[:4096]}).encode()
    )
    assert response.status_code == 202
    message = await records.message(gate.scripts, response.json()["messageId"])
    assert message is not None
    assert json.loads(message.body)["text"] == text[:4096]


async def test_the_named_session_sends_although_another_has_more_room(gate: Gate) -> None:
    await gate.add_session("w2", "972500000002", first_connected_at=0)
    response = await gate.send(sessionId="w2")
    message = await records.message(gate.scripts, response.json()["messageId"])
    assert message is not None
    assert (message.session, message.pinned, message.why) == ("w2", "session", "ASKED_SESSION")


async def test_the_named_phone_sends(gate: Gate) -> None:
    await gate.add_session("w2", "972500000002")
    response = await gate.send(phone="+972-50-0000002")
    message = await records.message(gate.scripts, response.json()["messageId"])
    assert message is not None
    assert (message.session, message.pinned, message.why) == ("w2", "phone", "ASKED_PHONE")


async def test_who_spoke_with_the_recipient_before_speaks_again(gate: Gate) -> None:
    await gate.add_session("w2", "972500000002", first_connected_at=0)  # cold: hardly any room
    await gate.redis.set(keys.affinity("972511111111"), "w2")
    assert (await gate.send()).json()["sessionId"] == "w2"
    assert (await gate.send(to="972522222222")).json()["sessionId"] == "w1"


async def test_a_conversation_that_another_gateway_moved_is_followed_and_each_call_counts_once(gates: OpenGate) -> None:
    gate = await gates(rate_limit_per_minute=6)
    await gate.add_session()
    await gate.add_session("w2", "972500000002")
    first = (await gate.send()).json()["sessionId"]
    followed = []
    for session in ("w2", "w1", "w2"):
        await gate.redis.set(keys.affinity("972511111111"), session)
        followed.append((await gate.send()).json()["sessionId"])
    assert (first, followed) == ("w1", ["w2", "w1", "w2"])
    await gate.redis.delete(keys.affinity("972511111111"))
    assert (await gate.send()).status_code == 202
    assert [(await gate.send()).status_code for _ in range(2)] == [202, 429]


async def test_four_messages_in_a_row_to_a_new_recipient_leave_from_one_phone(gate: Gate) -> None:
    await gate.add_session("w2", "972500000002")
    await gate.add_session("w3", "972500000003")
    in_a_row = [(await gate.send()).json()["sessionId"] for _ in range(4)]
    assert len(set(in_a_row)) == 1
    told = await asyncio.gather(*(gate.send(to="972522222222") for _ in range(8)))
    assert len({each.json()["sessionId"] for each in told}) == 1


async def test_a_conversation_stays_with_its_phone_while_that_reconnects_so_that_nothing_overtakes(gate: Gate) -> None:
    first = (await gate.send()).json()["sessionId"]
    await gate.add_session("w2", "972500000002")
    gone = sessions.Transition(1, "disconnected", "RECONNECTING", "CONNECTION_LOST")
    assert isinstance(await sessions.advance(gate.scripts, first, gone), Written)
    await asyncio.sleep(FRESH_S)
    assert (await gate.send()).json()["sessionId"] == first
    assert (await gate.send(to="972522222222")).json()["sessionId"] == "w2"


async def test_a_conversation_leaves_a_phone_that_needs_a_person_and_stays_with_the_next(gate: Gate) -> None:
    await gate.add_session("w2", "972500000002", status="failed", reason="BANNED")
    await gate.add_session("w3", "972500000003")
    await gate.redis.set(keys.affinity("972511111111"), "w2")
    told = [(await gate.send()).json()["sessionId"] for _ in range(4)]
    assert len(set(told)) == 1
    assert await gate.redis.get(keys.affinity("972511111111")) == told[0] != "w2"


async def test_a_named_sender_begins_a_conversation_but_takes_none_over(gate: Gate) -> None:
    await gate.add_session("w2", "972500000002")
    await gate.send(sessionId="w2")
    assert (await gate.send()).json()["sessionId"] == "w2"
    assert (await gate.send(sessionId="w1")).json()["sessionId"] == "w1"
    assert (await gate.send()).json()["sessionId"] == "w2"


async def test_messages_go_around_among_sessions_with_the_same_room(gate: Gate) -> None:
    await gate.add_session("w2", "972500000002")
    senders = [(await gate.send(to=f"97251111111{n}")).json()["sessionId"] for n in range(4)]
    assert sorted(senders) == ["w1", "w1", "w2", "w2"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"sessionId": "nobody"}, 404, "NO_SUCH_SESSION"),
        ({"phone": "972599999999"}, 404, "NO_SUCH_PHONE"),
        ({"sessionId": "w1", "phone": "972599999999"}, 409, "PHONE_DIFFERS"),
    ],
)
async def test_a_sender_that_does_not_exist_is_named(gate: Gate, body: dict[str, str], status: int, code: str) -> None:
    response = await gate.send(**body)
    assert (response.status_code, code_of(response)) == (status, code)


@pytest.mark.parametrize("named", [{}, {"sessionId": "w1"}])
async def test_a_message_is_accepted_and_waits_while_the_only_linked_session_reconnects(
    gates: OpenGate, named: dict[str, str]
) -> None:
    gate = await gates()
    await gate.add_session("w0", "", status="qr_ready")
    await gate.add_session(status="disconnected", reason="RECONNECTING")
    response = await gate.send(**named)
    told = response.json()
    assert (response.status_code, told["sessionId"], told["because"], told["eta"]) == (
        202,
        "w1",
        "SESSION_OFFLINE",
        None,
    )


async def test_where_nothing_is_linked_a_message_is_refused(gates: OpenGate) -> None:
    gate = await gates()
    await gate.add_session("w9", "", status="qr_ready")
    response = await gate.send()
    assert (response.status_code, code_of(response)) == (409, "NO_SENDER")


async def test_a_message_rather_waits_for_a_session_that_comes_back_than_for_one_that_needs_a_person(
    gates: OpenGate,
) -> None:
    gate = await gates()
    await gate.add_session("w1", status="failed", reason="BANNED")
    await gate.add_session("w2", "972500000002", status="disconnected", reason="RECONNECTING")
    assert (await gate.send()).json()["sessionId"] == "w2"


async def test_a_session_without_a_phone_cannot_send(gates: OpenGate) -> None:
    gate = await gates()
    await gate.add_session("w9", "")
    response = await gate.send(sessionId="w9")
    assert (response.status_code, code_of(response)) == (409, "SESSION_NOT_LINKED")


async def test_a_held_session_is_chosen_only_where_no_other_is_ready(gate: Gate) -> None:
    await gate.redis.hset(
        keys.HOLDS, "session:w1", json.dumps({"until_ms": 9_000_000_000_000_000, "why": "x", "by": "y"})
    )
    for told in ((await gate.send()).json(), (await gate.send(sessionId="w1")).json()):
        assert (told["because"], told["eta"]) == ("HELD", None)
    await gate.add_session("w2", "972500000002")
    await asyncio.sleep(FRESH_S)
    assert (await gate.send(to="972522222222")).json()["sessionId"] == "w2"


async def test_a_new_message_within_a_day_after_one_that_was_never_confirmed_warns(gate: Gate, clock: Clock) -> None:
    await gate.redis.zadd(keys.UNCONFIRMED, {"972511111111": NOON_MS})
    assert (await gate.send()).json()["warning"] == "EARLIER_UNCONFIRMED"
    assert "warning" not in (await gate.send(to="972522222222")).json()
    await clock.pass_ms(DAY_MS)
    assert "warning" not in (await gate.send()).json()


async def test_who_opted_out_is_written_to_by_no_path(gate: Gate) -> None:
    await gate.redis.hset(keys.OPT_OUTS, "972511111111", "{}")
    for body in ({}, {"sessionId": "w1"}, {"sendAt": NOON_MS + 3_600_000}, {"onLimit": "defer"}):
        response = await gate.send(**body)
        assert (response.status_code, code_of(response)) == (422, "OPTED_OUT")
    assert await gate.queued() == []


async def test_a_full_day_says_the_limit_the_count_and_when_it_opens(gates: OpenGate) -> None:
    gate = await gates(hot_per_day=2)
    await gate.add_session()
    assert [(await gate.send()).status_code for _ in range(2)] == [202, 202]
    response = await gate.send()
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["limit"], error["count"]) == (429, "DAILY_LIMIT", 2, 2)
    assert error["opensAt"] == "2025-06-16T07:00:00.000Z"
    assert response.headers["retry-after"] == str(19 * 3600)


async def test_a_full_day_can_be_waited_for(gates: OpenGate) -> None:
    gate = await gates(hot_per_day=1)
    await gate.add_session()
    await gate.send()
    told = (await gate.send(onLimit="defer")).json()
    assert (told["because"], told["eta"]) == ("DAY_IS_FULL", "2025-06-16T07:00:00.000Z")
    message = await records.message(gate.scripts, told["messageId"])
    assert message is not None
    assert message.due_at == NOON_MS + 19 * 3_600_000


async def test_a_free_choice_goes_on_to_the_next_session_when_one_is_full(gates: OpenGate) -> None:
    gate = await gates(hot_per_day=1)
    await gate.add_session()
    await gate.add_session("w2", "972500000002")
    senders = [(await gate.send(to=f"97251111111{n}")).json()["sessionId"] for n in range(2)]
    assert sorted(senders) == ["w1", "w2"]
    assert code_of(await gate.send(to="972522222222")) == "DAILY_LIMIT"


async def test_the_limit_is_the_truth_of_redis_and_not_of_the_last_look(gates: OpenGate) -> None:
    gate, other = await gates(hot_per_day=1), await gates(hot_per_day=1)
    await gate.add_session()
    await gate.add_session("w2", "972500000002")
    await gate.gateway.pool.current()
    await other.send(sessionId="w1", to="972522222222")
    assert (await gate.send()).json()["sessionId"] == "w2"
    assert code_of(await gate.send()) == "DAILY_LIMIT"


async def test_a_session_s_own_limit_counts(gates: OpenGate) -> None:
    gate = await gates()
    await gate.add_session(limits=json.dumps({"per_day": 1}))
    assert (await gate.send()).status_code == 202
    assert (await gate.send()).json()["error"]["limit"] == 1


async def test_a_full_queue_takes_no_more(gates: OpenGate) -> None:
    gate = await gates(queue_limit=2)
    await gate.add_session()
    assert [(await gate.send()).status_code for _ in range(2)] == [202, 202]
    response = await gate.send()
    assert (response.status_code, code_of(response), response.json()["error"]["count"]) == (429, "QUEUE_FULL", 2)


async def test_scheduled_messages_count_as_waiting(gates: OpenGate) -> None:
    gate = await gates(queue_limit=2)
    await gate.add_session()
    later = NOON_MS + 3_600_000
    assert [(await gate.send(sendAt=later)).status_code for _ in range(2)] == [202, 202]
    for response in (await gate.send(), await gate.send(sendAt=later)):
        assert (response.status_code, code_of(response), response.json()["error"]["count"]) == (429, "QUEUE_FULL", 2)


async def test_a_key_that_calls_too_often_waits_and_leaves_nothing_behind(gates: OpenGate, clock: Clock) -> None:
    gate = await gates(rate_limit_per_minute=3)
    await gate.add_session()
    assert [(await gate.send()).status_code for _ in range(3)] == [202, 202, 202]
    response = await gate.send()
    assert (response.status_code, code_of(response), response.headers["retry-after"]) == (429, "RATE_LIMITED", "20")
    assert len(await gate.queued()) == 3
    await clock.pass_ms(20_000)
    assert (await gate.send()).status_code == 202


async def test_wrong_requests_count_against_the_rate_too(gates: OpenGate) -> None:
    gate = await gates(rate_limit_per_minute=2)
    await gate.add_session()
    assert (await gate.send(to="1")).status_code == 422
    assert (await gate.send(sessionId="nobody")).status_code == 404
    assert code_of(await gate.send(to="1")) == "RATE_LIMITED"


async def test_a_message_for_later_says_so(gate: Gate) -> None:
    told = (await gate.send(sendAt="2025-06-15T16:00:00+03:00")).json()
    assert (told["because"], told["eta"]) == ("SCHEDULED", "2025-06-15T13:00:00.000Z")
    message = await records.message(gate.scripts, told["messageId"])
    assert message is not None
    assert message.due_at == NOON_MS + 3_600_000


async def test_a_message_for_later_waits_for_the_hours_too(gate: Gate) -> None:
    told = (await gate.send(sendAt=NOON_MS + 15 * 3_600_000)).json()
    assert (told["because"], told["eta"]) == ("OUTSIDE_HOURS", "2025-06-16T07:00:00.000Z")


async def test_an_eta_reckons_with_the_queue_and_the_pause(gate: Gate) -> None:
    etas = [(await gate.send()).json() for _ in range(3)]
    assert [each["position"] for each in etas] == [1, 2, 3]
    assert [each["eta"][17:23] for each in etas] == [
        "00.000",
        "04.500",
        "09.000",
    ]  # a pause of 3 s, and 1.5 s for sending
    assert [each["because"] for each in etas] == ["NOTHING", "BEHIND_OTHERS", "BEHIND_OTHERS"]


async def test_at_night_a_message_waits_for_the_morning(gate: Gate, clock: Clock) -> None:
    await clock.set(NOON_MS + 13 * 3_600_000)
    gate.gateway.pool._snapshot = None
    told = (await gate.send()).json()
    assert (told["because"], told["eta"]) == ("OUTSIDE_HOURS", "2025-06-16T07:00:00.000Z")


async def test_a_text_is_stored_as_the_domain_writes_it(gate: Gate) -> None:
    text = 'quotes " and \\ and \n and \x00 and 🙂'
    response = await gate.send(message=text)
    message = await records.message(gate.scripts, response.json()["messageId"])
    assert message is not None
    assert content.decode(json.loads(message.body)) == content.Text(text)


async def test_a_place_is_sent_as_a_place(gate: Gate) -> None:
    place = {"latitude": 32.08, "longitude": 34.78, "name": "Office"}
    response = await gate.send(message=None, location=place)
    message = await records.message(gate.scripts, response.json()["messageId"])
    assert message is not None
    assert message.kind == "location"
    assert json.loads(message.body)["location"] == place


async def test_a_send_has_the_security_headers_of_every_other_route(gate: Gate) -> None:
    sent, other = await gate.send(), await gate.client.get("/api/v1/messages")
    for name in (
        "x-content-type-options",
        "referrer-policy",
        "x-frame-options",
        "content-security-policy",
        "cache-control",
    ):
        assert sent.headers[name] == other.headers[name]


async def test_a_limited_key_sends_from_its_own_sessions_also_where_others_have_the_conversation(gate: Gate) -> None:
    await gate.add_session("theirs", "972500000009")
    _, secret = await api_keys.create(gate.scripts, "crm", [Scope.SEND], reach=Only(sessions=frozenset({"w1"})))
    own, told = {"X-API-Key": secret}, []
    for _ in range(3):  # from the second on, the key is known
        await gate.redis.set(keys.affinity("972511111111"), "theirs")
        told.append((await gate.send(headers=own)).json())
    assert [each.get("sessionId") for each in told] == ["w1", "w1", "w1"]
    for named in ({"sessionId": "theirs"}, {"phone": "972500000009"}):
        assert code_of(await gate.send(headers=own, **named)) in ("NO_SUCH_SESSION", "NO_SUCH_PHONE")
