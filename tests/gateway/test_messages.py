"""What became of a message: status, search, cancel, retry, queue, figures."""

from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import Clock
from tests.gateway.conftest import NOON_MS, PHONE, Gate, OpenGate, code_of
from wa_orchestrator.domain.messages.failures import Doubt
from wa_orchestrator.messages import message_lookup, message_search
from wa_orchestrator.store import keys, records, sessions
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import message_index, open_messages, outbox, queues
from wa_orchestrator.store.messages.message_keys import Place, counted_in
from wa_orchestrator.store.messages.queues import Permit
from wa_orchestrator.timestamps import iso

FAR_MS = NOON_MS * 2
PERMIT = Permit(3000, 30, 500, 0, FAR_MS, 0, FAR_MS, 60_000)


async def _send(gate: Gate, **body: Any) -> str:
    """Send a message and let it be routed."""
    told = (await gate.send(**{"sessionId": "w1", **body})).json()
    message_id = str(told["messageId"])
    await queues.route(
        gate.scripts,
        Place(message_id, PHONE, told["sessionId"]),
        to=body.get("to", "972511111111"),
        reference=body.get("reference", ""),
    )
    return message_id


async def _release(gate: Gate, message_id: str) -> None:
    released = await queues.release(gate.scripts, Place(message_id, PHONE, "w1"), PERMIT, other_name="972511111111")
    assert isinstance(released, queues.Released)


async def _fail(gate: Gate, message_id: str) -> None:
    place = Place(message_id, PHONE, "w1")
    await _release(gate, message_id)
    await gate.redis.hset(keys.session("w1"), "epoch", 1)
    await outbox.claim(gate.scripts, "w1", phone=PHONE, epoch=1, lease_ms=60_000)
    await outbox.nack(
        gate.scripts, place, epoch=1, verdict=outbox.FailureVerdict(1, "NOT_ON_WHATSAPP", None), day="20250615"
    )


async def _lose(gate: Gate, message_id: str) -> None:
    """Have a message given up although it may have left."""
    await _release(gate, message_id)
    await gate.redis.hset(keys.session("w1"), "epoch", 1)
    await outbox.claim(gate.scripts, "w1", phone=PHONE, epoch=1, lease_ms=60_000)
    verdict = outbox.FailureVerdict(1, "NO_ACK", None, Doubt.RAISED)
    await outbox.nack(gate.scripts, Place(message_id, PHONE, "w1"), epoch=1, verdict=verdict, day="20250615")


async def _look(gate: Gate, message_id: str) -> dict[str, Any]:
    response = await gate.client.get(f"/api/v1/messages/{message_id}")
    assert response.status_code == 200
    same = await gate.client.get(f"/api/v1/messages/{message_id}/status")
    told: dict[str, Any] = response.json()
    either = {"waiting": None}  # its eta may come from a newer look at the phone's pace than the first answer's
    assert same.json() | either == told | either
    return told


async def test_the_timeline_tells_what_the_worker_reported_beside_what_follows_from_it(gate: Gate) -> None:
    message = await _send(gate)
    await _release(gate, message)
    await gate.redis.hset(keys.session("w1"), "epoch", 1)
    await outbox.claim(gate.scripts, "w1", phone=PHONE, epoch=1, lease_ms=60_000)
    verdict = outbox.FailureVerdict(1, "REFUSED", None, answer="WA_421")
    await outbox.nack(gate.scripts, Place(message, PHONE, "w1"), epoch=1, verdict=verdict, day="20250615")
    steps = [(step["status"], step["note"], step["answer"]) for step in (await _look(gate, message))["timeline"]]
    assert steps[-1] == ("failed", "REFUSED", "WA_421")
    assert {answer for _, _, answer in steps[:-1]} == {None}


async def test_a_message_that_waits_says_for_what_and_until_when(gate: Gate) -> None:
    first, second = await _send(gate), await _send(gate)
    told = await _look(gate, second)
    assert (told["status"], told["to"], told["sessionId"]) == ("queued", "972511111111", "w1")
    assert [moment["status"] for moment in told["timeline"]] == ["queued"]
    assert told["waiting"]["because"] == "BEHIND_OTHERS"
    assert told["waiting"]["eta"] == "2025-06-15T12:00:04.500Z"
    assert told["waiting"]["text"]
    assert (await _look(gate, first))["waiting"]["because"] == "NOTHING"


async def test_a_message_is_known_before_it_is_routed(gate: Gate) -> None:
    message_id = (await gate.send()).json()["messageId"]
    told = await _look(gate, message_id)
    assert (told["status"], told["waiting"]["because"]) == ("queued", "NOTHING")


async def test_a_released_message_shows_its_way(gate: Gate) -> None:
    message_id = await _send(gate)
    await _release(gate, message_id)
    told = await _look(gate, message_id)
    assert told["status"] == "scheduled"
    assert [moment["status"] for moment in told["timeline"]] == ["queued", "scheduled"]


async def test_an_unknown_message_is_not_found(gate: Gate) -> None:
    response = await gate.client.get("/api/v1/messages/m_000000000000000000")
    assert (response.status_code, code_of(response)) == (404, "NO_SUCH_MESSAGE")
    assert (await gate.client.get("/api/v1/messages/nonsense")).status_code == 422


async def test_a_waiting_message_can_be_cancelled_twice(gate: Gate) -> None:
    message_id = await _send(gate)
    for _ in range(2):
        response = await gate.client.delete(f"/api/v1/messages/{message_id}")
        assert (response.status_code, response.json()["status"]) == (200, "cancelled")
    assert await gate.redis.zcard(keys.queue(PHONE)) == 0


async def test_a_claimed_message_cannot_be_cancelled(gate: Gate) -> None:
    message_id = await _send(gate)
    await _release(gate, message_id)
    await gate.redis.hset(keys.session("w1"), "epoch", 1)
    await outbox.claim(gate.scripts, "w1", phone=PHONE, epoch=1, lease_ms=60_000)
    response = await gate.client.delete(f"/api/v1/messages/{message_id}")
    assert (response.status_code, code_of(response)) == (409, "TOO_LATE")
    assert response.json()["error"]["status"] == "sending"


async def test_a_failed_message_is_retried_with_the_same_whatsapp_id(gate: Gate) -> None:
    message_id = await _send(gate)
    before = await _look(gate, message_id)
    await _fail(gate, message_id)
    failed = await _look(gate, message_id)
    assert (failed["status"], failed["reason"], bool(failed["reasonText"])) == ("failed", "NOT_ON_WHATSAPP", True)
    response = await gate.client.post(f"/api/v1/messages/{message_id}/retry")
    assert (response.status_code, response.json()["status"]) == (200, "queued")
    assert response.json()["whatsappId"] == before["whatsappId"]
    again = await gate.client.post(f"/api/v1/messages/{message_id}/retry")
    assert (again.status_code, code_of(again)) == (409, "NOT_FAILED")


async def test_who_cancels_retries_and_empties_is_in_the_audit_log(gate: Gate) -> None:
    failed = await _send(gate)
    await _fail(gate, failed)
    await gate.client.post(f"/api/v1/messages/{failed}/retry")
    await gate.client.post(f"/api/v1/messages/{failed}/retry")  # refused: nothing was done
    for _ in range(2):
        await gate.client.delete(f"/api/v1/messages/{failed}")
    await gate.client.delete("/api/v1/queue/w1")
    written = [(fields["action"], fields["target"]) for _, fields in await gate.redis.xrange(keys.AUDIT)]
    assert written == [("message.retry", failed), ("message.cancel", failed), ("queue.empty", "w1")]


async def test_a_retry_respects_an_opt_out(gate: Gate) -> None:
    message_id = await _send(gate)
    await _fail(gate, message_id)
    await gate.redis.hset(keys.OPT_OUTS, "972511111111", "{}")
    response = await gate.client.post(f"/api/v1/messages/{message_id}/retry")
    assert (response.status_code, code_of(response)) == (422, "OPTED_OUT")


async def test_a_message_that_the_recipient_has_is_confirmed_once_and_audited(gate: Gate) -> None:
    message_id = await _send(gate)
    early = await gate.client.post(f"/api/v1/messages/{message_id}/confirm")
    assert (early.status_code, code_of(early)) == (409, "NOT_UNKNOWN")
    await _lose(gate, message_id)
    for _ in range(2):
        response = await gate.client.post(f"/api/v1/messages/{message_id}/confirm")
        assert (response.status_code, response.json()["status"]) == (200, "sent")
    assert [step["note"] for step in response.json()["timeline"]][-1] == "CONFIRMED"
    assert response.json()["sentAt"] == iso(NOON_MS)
    written = [(fields["action"], fields["target"]) for _, fields in await gate.redis.xrange(keys.AUDIT)]
    assert written == [("message.confirm", message_id)]


async def test_an_unconfirmed_message_is_sent_again_as_a_new_one_and_stays_as_it_is(gate: Gate) -> None:
    old = await _send(gate, message="Your order is ready.", reference="order-1001")
    early = await gate.client.post(f"/api/v1/messages/{old}/send-again")
    assert (early.status_code, code_of(early)) == (409, "NOT_UNKNOWN")
    await _lose(gate, old)
    response = await gate.client.post(f"/api/v1/messages/{old}/send-again")
    assert response.status_code == 202
    told = response.json()
    assert (told["warning"], "warnings" in told, bool(told["eta"])) == ("EARLIER_UNCONFIRMED", False, True)
    new = await _look(gate, told["messageId"])
    assert (new["status"], new["content"]["text"], new["sessionId"]) == ("queued", "Your order is ready.", "w1")
    assert (new["messageId"] != old, new["reference"]) == (True, "order-1001")
    assert (await _look(gate, old))["status"] == "unknown"
    written = [(fields["action"], fields["target"]) for _, fields in await gate.redis.xrange(keys.AUDIT)]
    assert written == [("message.again", old)]


async def test_two_people_who_send_the_same_message_again_send_one_unless_it_was_cancelled(gate: Gate) -> None:
    old = await _send(gate)
    await _lose(gate, old)
    copies = [(await gate.client.post(f"/api/v1/messages/{old}/send-again")).json()["messageId"] for _ in range(2)]
    assert copies[0] == copies[1]
    await gate.client.delete(f"/api/v1/messages/{copies[0]}")
    third = (await gate.client.post(f"/api/v1/messages/{old}/send-again")).json()["messageId"]
    assert third not in copies


async def test_sending_again_respects_an_opt_out(gate: Gate) -> None:
    old = await _send(gate)
    await _lose(gate, old)
    await gate.redis.hset(keys.OPT_OUTS, "972511111111", "{}")
    response = await gate.client.post(f"/api/v1/messages/{old}/send-again")
    assert (response.status_code, code_of(response)) == (422, "OPTED_OUT")


async def _pages(gate: Gate, **query: Any) -> list[list[str]]:
    pages: list[list[str]] = []
    cursor: str | None = None
    while True:
        asked = {**query, **({"cursor": cursor} if cursor else {})}
        response = await gate.client.get("/api/v1/messages", params=asked)
        assert response.status_code == 200, response.text
        pages.append([each["messageId"] for each in response.json()["messages"]])
        cursor = response.json()["next"]
        if cursor is None:
            return pages


async def test_search_gives_every_message_once_newest_first_though_all_are_of_one_millisecond(gate: Gate) -> None:
    sent = [await _send(gate, to=f"97251111111{n}") for n in range(7)]
    pages = await _pages(gate, limit=3)
    found = [each for page in pages for each in page]
    assert sorted(found) == sorted(sent)
    assert [len(page) for page in pages if page] == [3, 3, 1]


async def test_search_by_recipient_session_status_reference_and_time(gate: Gate, clock: Clock) -> None:
    await gate.add_session("w2", "972500000002")
    first = await _send(gate, reference="a")
    await clock.pass_ms(1000)
    second = await _send(gate, to="972522222222", reference="b")
    await gate.client.delete(f"/api/v1/messages/{first}")
    table: list[tuple[dict[str, Any], list[str]]] = [
        ({"to": "972511111111"}, [first]),
        ({"recipient": "+972 52 222-2222"}, [second]),
        ({"sessionId": "w1"}, [second, first]),
        ({"session": "w2"}, []),
        ({"status": "cancelled"}, [first]),
        ({"status": "queued"}, [second]),
        ({"reference": "b"}, [second]),
        ({"reference": "b", "to": "972511111111"}, []),
        ({"from": NOON_MS + 500}, [second]),
        ({"until": "2025-06-15T12:00:00.500Z"}, [first]),
        ({"from": NOON_MS + 500, "until": NOON_MS + 600}, []),
    ]
    for query, expected in table:
        assert [each for page in await _pages(gate, **query) for each in page] == expected, query


@pytest.mark.parametrize("query", [{}, {"status": "queued"}, {"sessionId": "w1"}, {"to": "972511111111"}])
async def test_a_message_is_found_by_its_status_before_it_is_routed(
    gate: Gate, clock: Clock, monkeypatch: pytest.MonkeyPatch, query: dict[str, Any]
) -> None:
    monkeypatch.setattr(open_messages, "PAGE", 3)
    monkeypatch.setattr(open_messages, "_OVERLAP", 1)
    routed = [await _send(gate) for _ in range(2)]
    unrouted = []
    for number in range(9):
        await clock.pass_ms(number % 2)  # some have the same instant
        unrouted.append((await gate.send(sessionId="w1")).json()["messageId"])
    await gate.send(sessionId="w1", to="972522222222")
    found = [each for page in await _pages(gate, **{"to": "972511111111"} | query, limit=2) for each in page]
    assert sorted(found) == sorted(routed + unrouted)  # each once
    instants = [record.accepted_at for name in found if (record := await records.message(gate.scripts, name))]
    assert instants == sorted(instants, reverse=True)
    assert await _pages(gate, status="cancelled") == [[]]
    await gate.client.delete(f"/api/v1/messages/{unrouted[-1]}")
    assert await _pages(gate, status="cancelled") == [[unrouted[-1]]]


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ({"status": "lost"}, 422, "VALIDATION_FAILED"),
        ({"to": "1"}, 422, "VALIDATION_FAILED"),
        ({"limit": 0}, 422, "VALIDATION_FAILED"),
        ({"colour": "red"}, 422, "VALIDATION_FAILED"),
        ({"cursor": "nonsense!"}, 400, "BAD_CURSOR"),
        ({"cursor": "bm9uc2Vuc2U"}, 400, "BAD_CURSOR"),
    ],
)
async def test_a_wrong_search_is_refused(gate: Gate, query: dict[str, Any], status: int, code: str) -> None:
    response = await gate.client.get("/api/v1/messages", params=query)
    assert (response.status_code, code_of(response)) == (status, code)


async def test_one_page_looks_at_a_bounded_number_of_messages(
    gate: Gate, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_search, "MAX_EXAMINED", 4)
    monkeypatch.setattr(message_search, "_CHUNK", 2)
    wanted = await _send(gate, to="972522222222")
    await clock.pass_ms(1)
    for n in range(9):
        await _send(gate, to=f"97251111111{n}", reference="x")
    pages = await _pages(gate, status="queued", sessionId="w1", limit=50)
    assert [len(page) for page in pages] == [4, 4, 2]
    await gate.client.delete(f"/api/v1/messages/{wanted}")
    sparse = await _pages(gate, status="cancelled", limit=50)
    assert sparse == [[wanted]]
    assert [len(page) for page in await _pages(gate, status="failed", reference="x", limit=50)] == [0, 0, 0]


async def test_a_page_reads_no_more_messages_than_it_shows(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(9):
        await _send(gate, reference="x")
    read: list[int] = []

    async def messages(scripts: Scripts, ids: Sequence[str]) -> list[records.Message]:
        read.append(len(ids))
        return await records.messages(scripts, ids)

    monkeypatch.setattr(message_lookup, "records", SimpleNamespace(messages=messages))
    for query in ({}, {"status": "queued"}, {"sessionId": "w1"}, {"reference": "x"}):
        await gate.client.get("/api/v1/messages", params={"limit": 3, **query})
    assert read == [3, 3, 3, 3]


async def test_the_queue_is_shown_in_the_order_in_which_it_leaves(gate: Gate) -> None:
    late, urgent = await _send(gate, priority=3), await _send(gate, priority=1)
    response = await gate.client.get("/api/v1/queue/w1")
    told = response.json()
    assert (told["sessionId"], told["phone"], told["total"]) == ("w1", PHONE, 2)
    assert [(each["messageId"], each["position"]) for each in told["messages"]] == [(urgent, 1), (late, 2)]
    assert [each["eta"][17:23] for each in told["messages"]] == [
        "00.000",
        "04.500",
    ]  # a pause of 3 s, and 1.5 s for sending


async def test_emptying_a_queue_cancels_what_waits_for_that_session_only(gate: Gate) -> None:
    await gate.add_session("w2", PHONE)
    own = [await _send(gate), await _send(gate)]
    unrouted = (await gate.send(sessionId="w1")).json()["messageId"]
    other = await _send(gate, sessionId="w2")
    response = await gate.client.delete("/api/v1/queue/w1")
    assert response.json() == {"cancelled": 3, "tooLate": 0}
    states = [(await _look(gate, each))["status"] for each in (*own, unrouted, other)]
    assert states == ["cancelled", "cancelled", "cancelled", "queued"]


async def test_emptying_a_queue_reaches_behind_any_number_of_others_that_are_not_routed(gate: Gate) -> None:
    await gate.add_session("w2", "972500000002")
    await gate.redis.rpush(keys.GATEWAY_JOBS, *(f"m_{number:018x}" for number in range(10_001)))
    own = (await gate.send(sessionId="w1")).json()["messageId"]
    other = (await gate.send(sessionId="w2")).json()["messageId"]
    assert (await gate.client.delete("/api/v1/queue/w1")).json() == {"cancelled": 1, "tooLate": 0}
    assert [(await _look(gate, each))["status"] for each in (own, other)] == ["cancelled", "queued"]
    assert await gate.redis.llen(keys.GATEWAY_JOBS) == 10_002


async def test_a_failed_message_is_found_behind_any_number_of_newer_ones(gate: Gate, clock: Clock) -> None:
    await gate.add_session("w3", "972500000003")
    await gate.add_session("w4", "972500000004")
    failed = await _send(gate, reference="order-1")
    await _fail(gate, failed)
    await clock.pass_ms(1000)
    for session in ("w1", "w3", "w4"):  # a queue takes a thousand
        message = {"sessionId": session, "message": "hi", "onLimit": "defer"}
        batch = [{"to": f"97252{number:07d}", **message} for number in range(500)]
        answer = (await gate.client.post("/api/v1/send/batch", json={"messages": batch})).json()
        assert answer["accepted"] == 500, session
    for query in ({"status": "failed"}, {"status": "failed", "sessionId": "w1"}, {"reference": "order-1"}):
        page = (await gate.client.get("/api/v1/messages", params={**query, "limit": 1})).json()
        assert [each["messageId"] for each in page["messages"]] == [failed]
    assert (await gate.client.get("/api/v1/messages", params={"status": "failed", "sessionId": "w2"})).json() == {
        "messages": [],
        "next": None,
        "complete": True,
    }
    assert (await gate.client.get("/api/v1/messages", params={"status": "expired"})).json()["messages"] == []


async def test_messages_of_an_earlier_version_are_indexed(gate: Gate, clock: Clock) -> None:
    messages = []
    for _ in range(5):
        messages.append(await _send(gate))
        await clock.pass_ms(1)
    later = await _send(gate, sendAt=NOON_MS + 3 * 3_600_000)
    await gate.redis.delete(keys.STATUSES, keys.later(PHONE))
    while await message_index.add_older(gate.scripts, most=2):
        pass
    page = (await gate.client.get("/api/v1/messages", params={"status": "queued"})).json()
    assert [each["messageId"] for each in page["messages"]] == [later, *reversed(messages)]
    assert (await gate.client.get("/api/v1/queue/w1")).json()["total"] == 6


async def _campaign(gates: OpenGate, count: int) -> tuple[Gate, dict[str, Any]]:
    """An account of 20 messages a day gets a campaign that waits for the next days; the answer."""
    gate = await gates(hot_per_day=20)
    await gate.add_session()
    batch = [{"to": f"97251{number:07d}", "message": "hi", "onLimit": "defer"} for number in range(count)]
    answer = (await gate.client.post("/api/v1/send/batch", json={"messages": batch})).json()
    assert answer["accepted"] == count
    return gate, answer


async def _route_all(gate: Gate, answer: dict[str, Any]) -> None:
    for item in answer["items"]:
        await queues.route(gate.scripts, Place(item["messageId"], PHONE, "w1"), to="972510000000")


@pytest.mark.parametrize("routed", [True, False])
async def test_deferred_messages_are_listed_counted_and_cancelled_with_the_queue(gates: OpenGate, routed: bool) -> None:
    gate, answer = await _campaign(gates, 60)
    if routed:
        await _route_all(gate, answer)
    told = (await gate.client.get("/api/v1/queue/w1")).json()
    assert [told[part] for part in ("total", "now", "today", "later")] == [60, 20, 0, 40]
    if routed:
        assert [each["messageId"] for each in told["messages"]] == [each["messageId"] for each in answer["items"]]
        assert [each["position"] for each in told["messages"]] == list(range(1, 61))
        assert {each["because"] for each in told["messages"][20:]} == {"DAY_IS_FULL"}
    assert (await gate.client.delete("/api/v1/queue/w1")).json() == {"cancelled": 60, "tooLate": 0}
    told = (await gate.client.get("/api/v1/queue/w1")).json()
    assert [told[part] for part in ("total", "now", "today", "later")] == [0, 0, 0, 0]


async def test_a_message_scheduled_for_this_evening_waits_for_today(gate: Gate) -> None:
    message = await _send(gate, sendAt=NOON_MS + 3 * 3_600_000)
    told = (await gate.client.get("/api/v1/queue/w1")).json()
    assert [told[part] for part in ("total", "now", "today", "later")] == [1, 0, 1, 0]
    assert [(each["messageId"], each["because"]) for each in told["messages"]] == [(message, "SCHEDULED")]


async def test_a_campaign_of_forty_days_is_promised_for_its_true_days(gates: OpenGate) -> None:
    gate, answer = await _campaign(gates, 800)
    days = Counter(each["eta"][:10] for each in answer["items"])
    first = date.fromisoformat(min(days))
    assert days == {str(first + timedelta(days=day)): 20 for day in range(40)}
    assert answer["lastEta"] == answer["items"][-1]["eta"]
    await _route_all(gate, answer)
    last = await _look(gate, answer["items"][-1]["messageId"])
    assert last["waiting"]["eta"] == answer["lastEta"]
    assert last["waiting"]["because"] == "DAY_IS_FULL"
    assert "daily limit" in last["waiting"]["text"]


async def test_a_campaign_for_tomorrow_morning_takes_as_many_days_as_the_limit_says(gates: OpenGate) -> None:
    gate = await gates(hot_per_day=20)
    await gate.add_session()
    tomorrow = NOON_MS + 22 * 3_600_000
    batch = [{"to": f"97251{number:07d}", "message": "hi", "sendAt": tomorrow} for number in range(50)]
    answer = (await gate.client.post("/api/v1/send/batch", json={"messages": batch})).json()
    days = Counter(each["eta"][:10] for each in answer["items"])
    assert sorted(days.values()) == [10, 20, 20]
    assert (min(days), max(days)) == (str(iso(tomorrow))[:10], answer["lastEta"][:10])
    assert answer["items"][0]["because"] == "SCHEDULED"


async def test_an_unknown_session_has_no_queue_and_no_figures(gate: Gate) -> None:
    for path in ("/api/v1/queue/nobody", "/api/v1/stats/nobody"):
        response = await gate.client.get(path)
        assert (response.status_code, code_of(response)) == (404, "NO_SUCH_SESSION")


async def test_the_figures_of_a_session_by_day(gate: Gate) -> None:
    await gate.redis.hset(keys.stats("w1", "20250615"), mapping={"sent": 3, "delivered": 2, "failed": 1})
    await gate.redis.hset(keys.stats("w1", "20250614"), mapping={"sent": 5, "read": 4})
    told = (await gate.client.get("/api/v1/stats/w1", params={"days": 3})).json()
    assert told["days"][0] == {"date": "2025-06-15", "sent": 3, "delivered": 2, "read": 0, "failed": 1, "unknown": 0}
    assert [day["sent"] for day in told["days"]] == [3, 5, 0]
    assert told["total"] == {"date": "total", "sent": 8, "delivered": 2, "read": 4, "failed": 1, "unknown": 0}


async def test_a_message_that_nobody_sends_counts_once_as_failed_for_the_fleet_and_for_no_session(gate: Gate) -> None:
    await gate.redis.hset(keys.stats("w1", "20250615"), mapping={"sent": 3, "failed": 1})
    place = Place(await _send(gate), PHONE, "w1")
    for _ in range(2):
        await queues.fail(gate.scripts, place, reason="NO_SENDER", counted=counted_in("", "20250615"))
    told = (await gate.client.get("/api/v1/stats", params={"days": 2})).json()
    counted = {"sent": 3, "delivered": 0, "read": 0, "failed": 2, "unknown": 0, "failedWithoutSender": 1}
    nothing = dict.fromkeys(counted, 0)
    assert told["days"] == [{"date": "2025-06-15", **counted}, {"date": "2025-06-14", **nothing}]
    assert told["total"] == {"date": "total", **counted}
    assert (await gate.client.get("/api/v1/stats/w1")).json()["total"]["failed"] == 1


async def test_a_message_of_a_deleted_session_waits_for_a_sender(gates: OpenGate) -> None:
    gate = await gates()
    await gate.add_session()
    message_id = await _send(gate)
    await sessions.remove(gate.scripts, "w1", proxy="direct", phone=PHONE)
    await gate.redis.delete(keys.session("w1"))
    await gate.redis.srem(keys.SESSIONS_ALL, "w1")
    gate.gateway.pool._snapshot = None
    assert (await _look(gate, message_id))["waiting"]["because"] == "NO_SENDER"
