"""Messages of a session that gets another phone: they follow it, wait or fail, and never leave from a wrong phone."""

import json

import pytest

from tests.conftest import Clock
from tests.dispatcher.scenario import Scenario, settle
from wa_orchestrator.store import keys, sessions
from wa_orchestrator.store.messages import queues
from wa_orchestrator.store.messages.message_keys import Place

A, B = "972500000001", "972500000002"


async def link(scenario: Scenario, session: str, phone: str, *, left: str = A) -> None:
    """Link a session to another phone, as its record shows it then, and wake the phone that it has left."""
    redis = scenario.scripts.redis
    await redis.srem(keys.sessions_of_phone(left), session)
    if phone:
        await redis.sadd(keys.sessions_of_phone(phone), session)
    await redis.hset(keys.session(session), "phone", phone)
    await queues.wake(scenario.scripts, left)


async def end_of(scenario: Scenario, message: str) -> tuple[str, str]:
    return await scenario.status(message), await scenario.reason(message)


@pytest.mark.parametrize("routed", [True, False])
async def test_an_unpinned_message_waits_for_its_session_while_that_moves_to_another_phone(
    scenario: Scenario, clock: Clock, routed: bool
) -> None:
    await scenario.connect("w1", A)
    await scenario.put("w1", "disconnected", "RECONNECTING")
    messages = [await scenario.accept("w1", A) for _ in range(3)]
    if routed:
        await settle(scenario.dispatcher())
    await link(scenario, "w1", B)
    await settle(scenario.dispatcher())
    assert {await scenario.status(message) for message in messages} == {"queued"}
    await scenario.put("w1", "connected")
    for message in messages:
        await queues.wake(scenario.scripts, B)
        await settle(scenario.dispatcher())
        assert await scenario.send("w1", B) == message
        await clock.pass_ms(10_000)


async def test_an_unpinned_message_outlasts_a_hold_on_all_when_its_session_gets_another_phone(
    scenario: Scenario,
) -> None:
    await scenario.connect("w1", A)
    await scenario.scripts.redis.hset(keys.HOLDS, "all", json.dumps({"until_ms": 9 * 10**15, "why": "", "by": "test"}))
    message = await scenario.accept("w1", A)
    await settle(scenario.dispatcher())
    await link(scenario, "w1", B)
    await settle(scenario.dispatcher())
    assert await scenario.status(message) == "queued"
    await scenario.scripts.redis.hdel(keys.HOLDS, "all")
    await queues.wake(scenario.scripts, B)
    await settle(scenario.dispatcher())
    assert await scenario.claim("w1", B) == message


async def test_a_message_pinned_to_a_phone_fails_once_no_session_has_that_phone(scenario: Scenario) -> None:
    await scenario.connect("w1", A)
    await scenario.put("w1", "disconnected", "RECONNECTING")
    message = await scenario.accept("w1", A, fields={"pinned": "phone"})
    await settle(scenario.dispatcher())
    await link(scenario, "w1", B)
    await settle(scenario.dispatcher())
    assert await end_of(scenario, message) == ("failed", "NO_SENDER")


@pytest.mark.parametrize("pinned", ["", "phone"])
async def test_a_message_whose_session_is_gone_waits_for_another_of_its_phone_that_is_away(
    scenario: Scenario, pinned: str
) -> None:
    await scenario.connect("w1", A)
    await scenario.connect("w2", A)
    await scenario.put("w2", "disconnected", "RECONNECTING")
    message = await scenario.accept("w1", A, fields={"pinned": pinned})
    await sessions.remove(scenario.scripts, "w1", proxy="p_w1", phone=A)
    await settle(scenario.dispatcher())
    assert await scenario.status(message) == "queued"
    await scenario.put("w2", "connected")
    await settle(scenario.dispatcher())
    assert await scenario.claim("w2", A) == message


async def test_a_message_waits_for_a_session_that_has_no_phone_yet_and_is_found_again(
    scenario: Scenario, clock: Clock
) -> None:
    await scenario.connect("w1", A)
    await scenario.put("w1", "disconnected", "RECONNECTING")
    message = await scenario.accept("w1", A)
    await settle(scenario.dispatcher())
    await link(scenario, "w1", "")
    await settle(scenario.dispatcher())
    assert await scenario.status(message) == "queued"
    await scenario.scripts.redis.hset(keys.session("w1"), "phone", B)  # and nobody wakes its old phone
    await scenario.put("w1", "connected")
    await clock.pass_ms(60_000)
    await settle(scenario.dispatcher())
    assert await scenario.claim("w1", B) == message


async def tried(scenario: Scenario, clock: Clock, pinned: str = "") -> str:
    """A message that the worker of `w1` held when it ended, and that waits again; its session is away."""
    await scenario.connect("w1", A)
    message = await scenario.accept("w1", A, fields={"pinned": pinned})
    await settle(scenario.dispatcher())
    assert await scenario.claim("w1", A) == message
    await scenario.put("w1", "disconnected", "RECONNECTING")
    await clock.pass_ms(120_000)
    await settle(scenario.dispatcher())
    assert await scenario.status(message) == "queued"
    await clock.pass_ms(60_000)
    return message


async def retry(scenario: Scenario, message: str) -> None:
    phone, session = await scenario.scripts.redis.hmget(keys.message(message), ["phone", "session"])
    place = Place(message, str(phone), str(session))
    assert await queues.retry(scenario.scripts, place, to="97251000001") == queues.Queued()
    await settle(scenario.dispatcher())


async def test_a_claimed_message_fails_as_perhaps_arrived_when_its_session_has_another_phone(
    scenario: Scenario, clock: Clock
) -> None:
    message = await tried(scenario, clock)
    await link(scenario, "w1", B)
    await scenario.put("w1", "connected")
    await settle(scenario.dispatcher())
    assert await end_of(scenario, message) == ("unknown", "SESSION_RELINKED")
    await retry(scenario, message)
    assert await scenario.claim("w1", B) == message


@pytest.mark.parametrize("pinned", ["", "phone", "session"])
async def test_a_claimed_message_fails_as_perhaps_arrived_when_its_session_is_gone(
    scenario: Scenario, clock: Clock, pinned: str
) -> None:
    message = await tried(scenario, clock, pinned)
    await scenario.connect("other", B)
    await sessions.remove(scenario.scripts, "w1", proxy="p_w1", phone=A)
    await queues.wake(scenario.scripts, A)
    await settle(scenario.dispatcher())
    assert await end_of(scenario, message) == ("unknown", "SENDER_LOST")
    await retry(scenario, message)  # it is what a person asked for, knowing that; within what the client has asked for
    if pinned:
        assert await end_of(scenario, message) == ("unknown", "SENDER_LOST")
    else:
        assert await scenario.claim("other", B) == message


async def test_a_retry_of_a_claimed_message_leaves_from_no_other_phone_unless_its_failure_said_so(
    scenario: Scenario, clock: Clock
) -> None:
    message = await tried(scenario, clock)
    await scenario.connect("other", B)
    await queues.fail(scenario.scripts, Place(message, A, "w1"), reason="NO_ACK", counted=("stats", "totals"))
    await sessions.remove(scenario.scripts, "w1", proxy="p_w1", phone=A)
    await retry(scenario, message)
    assert await scenario.claim("other", B) is None
    assert await end_of(scenario, message) == ("unknown", "SENDER_LOST")
