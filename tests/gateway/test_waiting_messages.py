"""What waits, over all sessions: listed, counted and cancelled together, by session, reference, batch and time."""

from typing import Any

import pytest

from tests.conftest import Clock
from tests.gateway.conftest import NOON_MS, Gate, OpenGate, code_of
from wa_orchestrator.dispatcher.router import Router
from wa_orchestrator.store import keys

HOUR_MS = 3_600_000
PARTS = ("total", "now", "today", "later")


async def _post(gate: Gate, count: int, **fields: Any) -> dict[str, Any]:
    messages = [{"to": f"97251{number:07d}", "message": "hi", **fields} for number in range(count)]
    told: dict[str, Any] = (await gate.client.post("/api/v1/send/batch", json={"messages": messages})).json()
    assert told["accepted"] == count
    return told


async def _route(gate: Gate) -> None:
    while await Router(gate.scripts, gate.gateway.context.settings).step():
        pass


async def _waiting(gate: Gate, **filters: Any) -> dict[str, Any]:
    response = await gate.client.get("/api/v1/queue", params=filters)
    assert response.status_code == 200
    told: dict[str, Any] = response.json()
    assert len(told["messages"]) == told["total"]
    return told


def _ids(told: dict[str, Any]) -> set[str]:
    return {each["messageId"] for each in told.get("items", told.get("messages", []))}


@pytest.mark.parametrize("routed", [True, False])
async def test_a_batch_is_listed_counted_and_cancelled_and_nothing_else(gates: OpenGate, routed: bool) -> None:
    gate = await gates(hot_per_day=20)
    await gate.add_session()
    other, batch = await _post(gate, 5), await _post(gate, 30, onLimit="defer")
    if routed:
        await _route(gate)
    told = await _waiting(gate, batchId=batch["batchId"])
    assert _ids(told) == _ids(batch)
    assert {each["batchId"] for each in told["messages"]} == {batch["batchId"]}
    assert [told[part] for part in PARTS] == [30, 15, 0, 15]
    cancelled = await gate.client.delete("/api/v1/queue", params={"batchId": batch["batchId"]})
    assert cancelled.json() == {"cancelled": 30, "tooLate": 0}
    assert [(await _waiting(gate, batchId=batch["batchId"]))[part] for part in PARTS] == [0, 0, 0, 0]
    assert _ids(await _waiting(gate)) == _ids(other)


@pytest.mark.parametrize("routed", [True, False])
async def test_the_parts_of_all_that_waits_are_those_of_the_session(gates: OpenGate, routed: bool) -> None:
    gate = await gates(hot_per_day=20)
    await gate.add_session()
    await _post(gate, 10, sendAt=NOON_MS + HOUR_MS)
    await _post(gate, 60, onLimit="defer")
    if routed:
        await _route(gate)
    of_session = (await gate.client.get("/api/v1/queue/w1")).json()
    found = await _waiting(gate, sessionId="w1")
    assert [found[part] for part in PARTS] == [of_session[part] for part in PARTS]
    assert found["total"] == 70


async def test_what_waits_is_found_by_session_recipient_reference_and_both_times(gate: Gate, clock: Clock) -> None:
    await gate.add_session("w2", "972500000002")
    first = await _post(gate, 2, sessionId="w1", reference="order")
    await clock.pass_ms(HOUR_MS)
    second = await _post(gate, 3, sessionId="w2", sendAt=NOON_MS + 24 * HOUR_MS)
    await _route(gate)
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({"sessionId": "w1"}, _ids(first)),
        ({"sessionId": "w2"}, _ids(second)),
        ({"reference": "order"}, _ids(first)),
        ({"reference": "order", "sessionId": "w2"}, set()),
        ({"to": "972510000002"}, {second["items"][2]["messageId"]}),
        ({"from": NOON_MS + 1}, _ids(second)),
        ({"until": NOON_MS}, _ids(first)),
        ({"dueFrom": NOON_MS + 2 * HOUR_MS}, _ids(second)),
        ({"dueUntil": NOON_MS + 2 * HOUR_MS}, _ids(first)),
        ({}, _ids(first) | _ids(second)),
    ]
    for filters, expected in cases:
        assert _ids(await _waiting(gate, **filters)) == expected, filters


async def test_what_is_to_leave_tomorrow_is_cancelled_by_its_time(gate: Gate) -> None:
    now, tomorrow = await _post(gate, 2), await _post(gate, 3, sendAt=NOON_MS + 24 * HOUR_MS)
    await _route(gate)
    cancelled = await gate.client.delete("/api/v1/queue", params={"dueFrom": NOON_MS + 12 * HOUR_MS})
    assert cancelled.json() == {"cancelled": 3, "tooLate": 0}
    assert _ids(await _waiting(gate)) == _ids(now)
    assert not _ids(tomorrow) & _ids(await _waiting(gate))


@pytest.mark.parametrize("routed", [True, False])
@pytest.mark.parametrize("to", ["lid:123456789012345", "120363025246125486@g.us"])
async def test_what_waits_for_a_recipient_without_a_phone_is_cancelled_by_it(gate: Gate, to: str, routed: bool) -> None:
    await gate.add_session()
    others = await _post(gate, 2)
    sent = await gate.client.post("/api/v1/send", json={"to": to, "message": "hi", "sessionId": "w1"})
    if routed:
        await _route(gate)
    assert _ids(await _waiting(gate, to=to)) == {sent.json()["messageId"]}
    cancelled = await gate.client.delete("/api/v1/queue", params={"to": to})
    assert cancelled.json() == {"cancelled": 1, "tooLate": 0}
    assert _ids(await _waiting(gate)) == _ids(others)


async def test_everything_is_not_cancelled_by_a_call_that_names_nothing(gate: Gate) -> None:
    await _post(gate, 2)
    response = await gate.client.delete("/api/v1/queue")
    assert (response.status_code, code_of(response)) == (422, "FILTER_REQUIRED")
    assert (await _waiting(gate))["total"] == 2


async def test_messages_without_a_phone_that_could_send_them_are_for_later(gate: Gate, gates: OpenGate) -> None:
    batch = await _post(gate, 2)
    await _route(gate)
    await gate.redis.hset(keys.session("w1"), "phone", "972500000009")
    told = await _waiting(await gates(), batchId=batch["batchId"])  # the other gateway may remember the old phone
    assert [told[part] for part in PARTS] == [2, 0, 0, 2]


async def test_a_repeated_batch_has_the_id_of_the_first_one(gate: Gate) -> None:
    body = {"messages": [{"to": "972511111111", "message": "hi"}]}
    key = {"Idempotency-Key": "campaign-1"}
    first, again = [(await gate.client.post("/api/v1/send/batch", json=body, headers=key)).json() for _ in range(2)]
    other = (await gate.client.post("/api/v1/send/batch", json=body)).json()
    assert first["batchId"] == again["batchId"] != other["batchId"]
    found = (await gate.client.get("/api/v1/messages", params={"batchId": first["batchId"]})).json()
    assert _ids(found) == _ids(first)
