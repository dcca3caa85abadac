"""Messages to people who never wrote: warned of before they leave, with the reason, and accepted all the same."""

from typing import Any

from tests.gateway.conftest import BOTH_MODES, PHONE, Gate, OpenGate
from wa_orchestrator.domain.number_health import MANY_IN_A_ROW
from wa_orchestrator.store import keys
from wa_orchestrator.store.messages import contacts, health_counts
from wa_orchestrator.store.messages.health_counts import PoorSignal

DAY_MS = 86_400_000
KNOWN, STRANGER = "972511111111", "972522222222"
pytestmark = BOTH_MODES


async def _warnings(gate: Gate, to: str, **body: Any) -> list[dict[str, Any]]:
    response = await gate.send(to=to, **body)
    assert response.status_code == 202
    return list(response.json().get("warnings", []))


async def _new_number(gates: OpenGate) -> Gate:
    gate = await gates()
    await gate.add_session(first_connected_at=await gate.scripts.now_ms() - DAY_MS)
    return gate


async def test_a_new_number_is_warned_before_it_writes_to_somebody_who_never_wrote(gates: OpenGate) -> None:
    gate = await _new_number(gates)
    said = contacts.Incoming("w1", PHONE, "3EB0AA", "text", KNOWN)
    assert await contacts.receive(gate.scripts, said, keep_ms=1000)
    assert await _warnings(gate, STRANGER) == [{"code": "NEW_NUMBER", "count": 1}]
    assert await _warnings(gate, STRANGER, sendAt=await gate.scripts.now_ms() + DAY_MS) != []
    assert await _warnings(gate, KNOWN) == []
    assert await _warnings(gate, "120363041234567890@g.us", sessionId="w1") == []


async def test_somebody_who_got_a_message_and_never_answered_is_still_a_stranger(gates: OpenGate) -> None:
    gate = await _new_number(gates)
    await gate.redis.sadd(keys.contacts(PHONE), STRANGER)
    assert await _warnings(gate, STRANGER) == []
    await gate.redis.zadd(keys.unanswered(PHONE), {STRANGER: 1})
    assert await _warnings(gate, STRANGER) == [{"code": "NEW_NUMBER", "count": 1}]


async def test_an_old_number_is_warned_after_many_strangers_in_a_row_and_when_its_health_is_poor(
    gates: OpenGate,
) -> None:
    gate = await gates()
    await gate.add_session()
    assert await _warnings(gate, STRANGER) == []
    await gate.redis.hset(keys.pace(PHONE), "strangers", MANY_IN_A_ROW)
    await health_counts.replace_poor(gate.scripts, {PHONE: PoorSignal("w1", "ANSWERS", 1, 40)})
    later = await gates()  # the first one has read the fleet a moment ago
    assert await _warnings(later, STRANGER) == [
        {"code": "STRANGERS_IN_A_ROW", "count": MANY_IN_A_ROW},
        {"code": "POOR_HEALTH"},
    ]


async def test_a_batch_is_itself_the_many_in_a_row(gate: Gate) -> None:
    items = [{"to": f"97252{n:07d}", "message": "hello"} for n in range(MANY_IN_A_ROW + 2)]
    told = (await gate.client.post("/api/v1/send/batch", json={"messages": items})).json()
    assert told["accepted"] == len(items)
    assert told["warnings"] == [{"code": "STRANGERS_IN_A_ROW", "messages": 2}]
    warned = [each["warnings"][0]["count"] for each in told["items"] if "warnings" in each]
    assert warned == [MANY_IN_A_ROW, MANY_IN_A_ROW + 1]


async def test_a_repeated_request_gets_its_warnings_again(gates: OpenGate) -> None:
    gate = await _new_number(gates)
    first, second = [await _warnings(gate, STRANGER, idempotencyKey="order-1") for _ in range(2)]
    assert first == second == [{"code": "NEW_NUMBER", "count": 1}]


async def test_a_draft_says_how_many_recipients_never_wrote(gate: Gate) -> None:
    people = [f"97252{n:07d}" for n in range(MANY_IN_A_ROW + 1)]
    said = contacts.Incoming("w1", PHONE, "3EB0AA", "text", people[0])
    assert await contacts.receive(gate.scripts, said, keep_ms=1000)
    await health_counts.replace_poor(gate.scripts, {PHONE: PoorSignal("w1", "ANSWERS", 1, 40)})
    body = {
        "name": "News", "text": "Hello. To stop, answer STOP.", "csv": "\n".join(["phone", *people]),
        "consent": "They ticked the box on the order form.",
    }  # fmt: skip
    response = await gate.client.post("/api/v1/campaigns", json=body)
    assert response.status_code == 201, response.text
    draft = response.json()
    assert draft["neverWrote"] == MANY_IN_A_ROW
    assert draft["warnings"] == [
        {"code": "STRANGERS_IN_A_ROW", "count": MANY_IN_A_ROW},
        {"code": "POOR_HEALTH", "count": 1},
    ]
