"""The same request twice is one message with one answer."""

import asyncio
from dataclasses import replace

import httpx
import pytest
from redis.exceptions import TimeoutError as RedisTimeoutError

from tests.conftest import Clock
from tests.gateway.conftest import BOTH_MODES, Gate, OpenGate, code_of
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.gateway import idempotency
from wa_orchestrator.gateway.redis_access import PlainRedis
from wa_orchestrator.store import keys

HOUR_MS = 3_600_000
pytestmark = BOTH_MODES


async def test_fifty_at_once_are_one_message_and_one_answer(gate: Gate) -> None:
    answers = await asyncio.gather(*(gate.send(headers={"Idempotency-Key": "k"}) for _ in range(50)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.content for answer in answers}) == 1
    assert len(await gate.queued()) == 1
    assert sum("idempotent-replayed" in answer.headers for answer in answers) == 49


async def test_fifty_at_once_through_two_gateways_are_one_message(gates: OpenGate) -> None:
    one, other = await gates(), await gates()
    await one.add_session()
    answers = await asyncio.gather(
        *((one if n % 2 else other).send(headers={"Idempotency-Key": "k"}) for n in range(50))
    )
    assert len({answer.content for answer in answers}) == 1
    assert len(await one.queued()) == 1


async def test_the_same_key_with_another_body_is_a_conflict(gate: Gate) -> None:
    await gate.send(headers={"Idempotency-Key": "k"})
    response = await gate.send(headers={"Idempotency-Key": "k"}, message="other")
    assert (response.status_code, code_of(response)) == (409, "IDEMPOTENCY_CONFLICT")
    assert len(await gate.queued()) == 1


async def test_the_field_stands_for_the_header(gate: Gate) -> None:
    first = await gate.send(headers={"Idempotency-Key": "k"})
    again = await gate.send(idempotencyKey="k")
    assert again.content == first.content


async def test_a_header_and_a_field_that_differ_are_refused(gate: Gate) -> None:
    response = await gate.send(headers={"Idempotency-Key": "a"}, idempotencyKey="b")
    assert response.json()["error"]["errors"][0]["path"] == "idempotencyKey"


async def test_the_first_answer_comes_again_after_23_hours(gate: Gate, clock: Clock) -> None:
    for _ in range(2):
        await gate.send()
    first = await gate.send(headers={"Idempotency-Key": "k"})
    assert first.json()["position"] == 3  # an answer that is made anew would not know this
    await gate.send()
    await clock.pass_ms(23 * HOUR_MS)
    gate.gateway.pool._snapshot = None
    again = await gate.send(headers={"Idempotency-Key": "k"})
    assert again.content == first.content
    names = await gate.redis.keys(keys.idempotency("configured", "*"))
    assert 23 * HOUR_MS < await gate.redis.pttl(names[0]) <= 24 * HOUR_MS


async def test_what_a_repeat_finds_is_no_answer_before_replicas_have_it(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await gate.send(headers={"Idempotency-Key": "k"})
    record = idempotency.record_of("configured", "k", b"")
    assert record is not None
    known = replace(record, fingerprint=str(await gate.redis.hget(record.name, "fingerprint")))
    stored = idempotency.StoredResponses(PlainRedis(gate.scripts), gate.gateway.pool)

    async def too_few() -> None:
        raise RedisTimeoutError("0 of 1 replicas confirmed the write in time")

    with monkeypatch.context() as patch:
        patch.setattr(gate.scripts, "confirmed", too_few)
        with pytest.raises(Unavailable):
            await stored.find(known)
    assert await stored.find(known) == first.text


async def test_a_repeat_after_the_day_became_full_still_gets_its_answer(gates: OpenGate) -> None:
    gate = await gates(hot_per_day=1)
    await gate.add_session()
    first = await gate.send(headers={"Idempotency-Key": "k"})
    assert code_of(await gate.send()) == "DAILY_LIMIT"
    assert (await gate.send(headers={"Idempotency-Key": "k"})).content == first.content


async def test_two_api_keys_do_not_share_their_idempotency_keys(gate: Gate) -> None:
    from wa_orchestrator.domain.access.permissions import Scope
    from wa_orchestrator.store.access import api_keys

    _, secret = await api_keys.create(gate.gateway.context.scripts, "crm", [Scope.SEND])
    mine = await gate.send(headers={"Idempotency-Key": "k"})
    theirs = await gate.send(headers={"Idempotency-Key": "k", "X-API-Key": secret}, message="other")
    assert (mine.status_code, theirs.status_code) == (202, 202)
    assert mine.json()["messageId"] != theirs.json()["messageId"]


async def test_an_answer_that_was_never_written_is_made_anew_once(gate: Gate) -> None:
    first = await gate.send(headers={"Idempotency-Key": "k"})
    name = (await gate.redis.keys(keys.idempotency("configured", "*")))[0]
    await gate.redis.hdel(name, "answer")  # its server died between the two writes
    response_s, idempotency._RESPONSE_S = idempotency._RESPONSE_S, 0.01  # type: ignore[misc]
    try:
        answers: list[httpx.Response] = await asyncio.gather(
            *(gate.send(headers={"Idempotency-Key": "k"}) for _ in range(5))
        )
    finally:
        idempotency._RESPONSE_S = response_s  # type: ignore[misc]
    assert len({answer.content for answer in answers}) == 1
    assert answers[0].json()["messageId"] == first.json()["messageId"]


async def test_a_refused_request_may_be_tried_again_with_its_key(gate: Gate) -> None:
    await gate.redis.hset(keys.OPT_OUTS, "972511111111", "{}")
    assert code_of(await gate.send(headers={"Idempotency-Key": "k"})) == "OPTED_OUT"
    await gate.redis.hdel(keys.OPT_OUTS, "972511111111")
    assert (await gate.send(headers={"Idempotency-Key": "k"})).status_code == 202
