"""Many messages at once: each is checked and answered by itself."""

from typing import Any

import httpx
import pytest

from tests.gateway.conftest import BOTH_MODES, NOON_MS, Gate, OpenGate, code_of
from wa_orchestrator.store import keys, records

pytestmark = BOTH_MODES


async def _post(gate: Gate, messages: list[Any], headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
    return await gate.client.post("/api/v1/send/batch", json={"messages": messages, **more}, headers=headers or {})


def _some(count: int) -> list[dict[str, str]]:
    return [{"to": f"97251{n:07d}", "message": f"hello {n}"} for n in range(count)]


async def test_a_batch_asks_for_the_forecasts_of_all_its_senders_at_once(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2, 5):
        await gate.add_session(f"w{number}", f"97250000000{number}")
    under_way, most = 0, 0
    compute = gate.gateway.pool._compute

    async def counted(*asked: Any) -> Any:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        try:
            return await compute(*asked)
        finally:
            under_way -= 1

    monkeypatch.setattr(gate.gateway.pool, "_compute", counted)
    items = [{"to": f"97251{n:07d}", "message": "a", "sessionId": f"w{n % 4 + 1}"} for n in range(8)]
    assert (await _post(gate, items)).json()["accepted"] == 8
    assert most == 4


async def test_each_item_says_whether_it_was_taken(gate: Gate) -> None:
    await gate.redis.hset(keys.OPT_OUTS, "972522222222", "{}")
    items = [
        {"to": "972511111111", "message": "a"},
        {"to": "1", "message": ""},
        {"to": "972522222222", "message": "b"},
        {"to": "972533333333", "message": "c", "sessionId": "nobody"},
        "no object",
        {"to": "972544444444", "message": "d", "sessionId": "w1"},
    ]
    response = await _post(gate, items)
    told = response.json()
    assert (response.status_code, told["accepted"], told["refused"]) == (202, 2, 4)
    assert [each["queued"] for each in told["items"]] == [True, False, False, False, False, True]
    codes = [each["error"]["code"] for each in told["items"] if not each["queued"]]
    assert codes == ["VALIDATION_FAILED", "OPTED_OUT", "NO_SUCH_SESSION", "VALIDATION_FAILED"]
    assert {each["path"] for each in told["items"][1]["error"]["errors"]} == {"to", "message"}
    taken = [each["messageId"] for each in told["items"] if each["queued"]]
    assert await gate.queued() == taken


async def test_a_thousand_are_taken_in_their_order(gates: OpenGate) -> None:
    gate = await gates(hot_per_day=2000)
    await gate.add_session()
    response = await _post(gate, _some(1000))
    assert response.json()["accepted"] == 1000
    ids = [each["messageId"] for each in response.json()["items"]]
    assert await gate.queued() == ids
    assert [each["position"] for each in response.json()["items"]] == list(range(1, 1001))


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"messages": []}, "messages"),
        ({"messages": _some(1001)}, "messages"),
        ({}, "messages"),
        ({"messages": _some(1), "spreadMinutes": -1}, "spreadMinutes"),
        ({"messages": _some(1), "speed": 1}, "speed"),
    ],
)
async def test_a_batch_of_the_wrong_shape_is_refused_whole(gate: Gate, body: dict[str, Any], path: str) -> None:
    response = await gate.client.post("/api/v1/send/batch", json=body)
    assert (response.status_code, code_of(response)) == (422, "VALIDATION_FAILED")
    assert response.json()["error"]["errors"][0]["path"] == path


async def test_a_spread_batch_leaves_evenly(gate: Gate) -> None:
    response = await _post(gate, _some(4), spreadMinutes=60)
    due = []
    for each in response.json()["items"]:
        message = await records.message(gate.scripts, each["messageId"])
        assert message is not None
        due.append(message.due_at)
    minutes = [0 if not at else round((at - NOON_MS) / 60_000) for at in due]
    assert minutes == [0, 15, 30, 45]


async def test_a_repeated_batch_is_taken_once(gate: Gate) -> None:
    key = {"Idempotency-Key": "batch-1"}
    first = await _post(gate, _some(5), key, spreadMinutes=10)
    again = await _post(gate, _some(5), key, spreadMinutes=10)
    assert again.json() == first.json()
    assert len(await gate.queued()) == 5
    other = await _post(gate, [*_some(4), {"to": "972510000009", "message": "new"}], key, spreadMinutes=10)
    assert [each["queued"] for each in other.json()["items"]] == [True, True, True, True, False]
    assert other.json()["items"][4]["error"]["code"] == "IDEMPOTENCY_CONFLICT"


async def test_a_batch_is_one_call_for_the_rate(gates: OpenGate) -> None:
    gate = await gates(rate_limit_per_minute=2)
    await gate.add_session()
    assert [(await _post(gate, _some(10))).status_code for _ in range(3)] == [202, 202, 429]


async def test_a_batch_spreads_over_the_sessions_and_stops_at_their_limits(gates: OpenGate) -> None:
    gate = await gates(hot_per_day=3)
    await gate.add_session()
    await gate.add_session("w2", "972500000002")
    told = (await _post(gate, _some(8))).json()
    senders = sorted(each["sessionId"] for each in told["items"] if each["queued"])
    assert senders == ["w1"] * 3 + ["w2"] * 3
    assert {each["error"]["code"] for each in told["items"] if not each["queued"]} == {"DAILY_LIMIT"}
