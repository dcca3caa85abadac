"""What is old is forgotten: texts first, whole messages later, and nothing that may still be sent."""

import pytest

from tests.conftest import Clock
from tests.gateway.conftest import PHONE, Gate, OpenGate
from wa_orchestrator.gateway import retention
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.messages import queues
from wa_orchestrator.store.messages.message_keys import Place

DAY_MS = 86_400_000


async def _ended(gate: Gate) -> str:
    told = (await gate.send(reference="r")).json()
    place = Place(told["messageId"], PHONE, "w1")
    await queues.route(gate.scripts, place, to="972511111111", reference="r")
    await queues.cancel(gate.scripts, place)
    return str(told["messageId"])


async def test_texts_go_after_a_month_and_messages_after_three(gate: Gate, clock: Clock) -> None:
    old, waiting = await _ended(gate), (await gate.send()).json()["messageId"]
    await clock.pass_ms(29 * DAY_MS)
    assert await gate.gateway.retention.erase() == 0
    young = await _ended(gate)
    await clock.pass_ms(2 * DAY_MS)
    await gate.gateway.retention.erase()
    message = await records.message(gate.scripts, old)
    assert message is not None
    assert (message.body, message.status) == ("", "cancelled")
    assert (await gate.client.get(f"/api/v1/messages/{old}")).json()["content"] is None
    await clock.pass_ms(60 * DAY_MS)
    await gate.gateway.retention.erase()
    assert await records.message(gate.scripts, old) is None
    assert await records.timeline(gate.scripts, old) == []
    for index in (keys.ALL_MESSAGES, keys.messages_to("972511111111"), keys.messages_of_session("w1"),
                  keys.messages_with_reference("r"), keys.ENDED):  # fmt: skip
        assert await gate.redis.zrange(index, 0, -1) == [young]
    kept = await records.message(gate.scripts, waiting)
    assert kept is not None
    assert kept.body


async def test_one_step_takes_one_batch(gates: OpenGate, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    gate = await gates()
    await gate.add_session()
    for _ in range(5):
        await _ended(gate)
        await clock.pass_ms(1)
    await clock.pass_ms(91 * DAY_MS)
    left = []
    for _ in range(4):
        await gate.gateway.retention.erase()
        left.append(await gate.redis.zcard(keys.ENDED))
    assert left == [3, 1, 0, 0]


async def test_a_message_that_came_back_to_life_is_not_erased(gate: Gate, clock: Clock) -> None:
    from wa_orchestrator.store.history import retention as erasing

    message_id = await _ended(gate)
    await clock.pass_ms(91 * DAY_MS)
    await gate.redis.zrem(keys.ENDED, message_id)  # a retry in the same moment
    assert not await erasing.erase(gate.scripts, message_id, until_ms=clock.now_ms)
    assert await records.message(gate.scripts, message_id) is not None


async def test_a_message_without_its_text_is_not_retried(gate: Gate) -> None:
    message_id = await _ended(gate)
    await gate.redis.hset(keys.message(message_id), "status", "failed")
    await gate.redis.hdel(keys.message(message_id), "body")
    response = await gate.client.post(f"/api/v1/messages/{message_id}/retry")
    assert (response.status_code, response.json()["error"]["code"]) == (409, "TEXT_ERASED")
