"""Messages of a session that gets another phone: they follow it, wait or fail, and never leave from a wrong phone."""

import json

import pytest

from tests.conftest import Clock
from tests.dispatcher.stage import Stage, settle
from wa_orchestrator.store import keys, queues, sessions
from wa_orchestrator.store.message_keys import Place

A, B = "972500000001", "972500000002"


async def link(stage: Stage, session: str, phone: str, *, left: str = A) -> None:
    """Link a session to another phone, as its record shows it then, and wake the phone that it has left."""
    redis = stage.scripts.redis
    await redis.srem(keys.sessions_of_phone(left), session)
    if phone:
        await redis.sadd(keys.sessions_of_phone(phone), session)
    await redis.hset(keys.session(session), "phone", phone)
    await queues.wake(stage.scripts, left)


async def end_of(stage: Stage, message: str) -> tuple[str, str]:
    return await stage.status(message), await stage.reason(message)


@pytest.mark.parametrize("routed", [True, False])
async def test_an_unpinned_message_waits_for_its_session_while_that_moves_to_another_phone(
    stage: Stage, clock: Clock, routed: bool
) -> None:
    await stage.connect("w1", A)
    await stage.put("w1", "disconnected", "RECONNECTING")
    messages = [await stage.accept("w1", A) for _ in range(3)]
    if routed:
        await settle(stage.dispatcher())
    await link(stage, "w1", B)
    await settle(stage.dispatcher())
    assert {await stage.status(message) for message in messages} == {"queued"}
    await stage.put("w1", "connected")
    for message in messages:
        await queues.wake(stage.scripts, B)
        await settle(stage.dispatcher())
        assert await stage.send("w1", B) == message
        await clock.pass_ms(10_000)


async def test_an_unpinned_message_outlasts_a_hold_on_all_when_its_session_gets_another_phone(stage: Stage) -> None:
    await stage.connect("w1", A)
    await stage.scripts.redis.hset(keys.HOLDS, "all", json.dumps({"until_ms": 9 * 10**15, "why": "", "by": "test"}))
    message = await stage.accept("w1", A)
    await settle(stage.dispatcher())
    await link(stage, "w1", B)
    await settle(stage.dispatcher())
    assert await stage.status(message) == "queued"
    await stage.scripts.redis.hdel(keys.HOLDS, "all")
    await queues.wake(stage.scripts, B)
    await settle(stage.dispatcher())
    assert await stage.claim("w1", B) == message


async def test_a_message_pinned_to_a_phone_fails_once_no_session_has_that_phone(stage: Stage) -> None:
    await stage.connect("w1", A)
    await stage.put("w1", "disconnected", "RECONNECTING")
    message = await stage.accept("w1", A, fields={"pinned": "phone"})
    await settle(stage.dispatcher())
    await link(stage, "w1", B)
    await settle(stage.dispatcher())
    assert await end_of(stage, message) == ("failed", "NO_SENDER")


@pytest.mark.parametrize("pinned", ["", "phone"])
async def test_a_message_whose_session_is_gone_waits_for_another_of_its_phone_that_is_away(
    stage: Stage, pinned: str
) -> None:
    await stage.connect("w1", A)
    await stage.connect("w2", A)
    await stage.put("w2", "disconnected", "RECONNECTING")
    message = await stage.accept("w1", A, fields={"pinned": pinned})
    await sessions.remove(stage.scripts, "w1", proxy="p_w1", phone=A)
    await settle(stage.dispatcher())
    assert await stage.status(message) == "queued"
    await stage.put("w2", "connected")
    await settle(stage.dispatcher())
    assert await stage.claim("w2", A) == message


async def test_a_message_waits_for_a_session_that_has_no_phone_yet_and_is_found_again(
    stage: Stage, clock: Clock
) -> None:
    await stage.connect("w1", A)
    await stage.put("w1", "disconnected", "RECONNECTING")
    message = await stage.accept("w1", A)
    await settle(stage.dispatcher())
    await link(stage, "w1", "")
    await settle(stage.dispatcher())
    assert await stage.status(message) == "queued"
    await stage.scripts.redis.hset(keys.session("w1"), "phone", B)  # and nobody wakes its old phone
    await stage.put("w1", "connected")
    await clock.pass_ms(60_000)
    await settle(stage.dispatcher())
    assert await stage.claim("w1", B) == message


async def tried(stage: Stage, clock: Clock, pinned: str = "") -> str:
    """A message that the worker of `w1` held when it ended, and that waits again; its session is away."""
    await stage.connect("w1", A)
    message = await stage.accept("w1", A, fields={"pinned": pinned})
    await settle(stage.dispatcher())
    assert await stage.claim("w1", A) == message
    await stage.put("w1", "disconnected", "RECONNECTING")
    await clock.pass_ms(120_000)
    await settle(stage.dispatcher())
    assert await stage.status(message) == "queued"
    await clock.pass_ms(60_000)
    return message


async def retry(stage: Stage, message: str) -> None:
    phone, session = await stage.scripts.redis.hmget(keys.message(message), ["phone", "session"])
    place = Place(message, str(phone), str(session))
    assert await queues.retry(stage.scripts, place, to="97251000001") == queues.Queued()
    await settle(stage.dispatcher())


async def test_a_claimed_message_fails_as_perhaps_arrived_when_its_session_has_another_phone(
    stage: Stage, clock: Clock
) -> None:
    message = await tried(stage, clock)
    await link(stage, "w1", B)
    await stage.put("w1", "connected")
    await settle(stage.dispatcher())
    assert await end_of(stage, message) == ("failed", "SESSION_RELINKED")
    await retry(stage, message)
    assert await stage.claim("w1", B) == message


@pytest.mark.parametrize("pinned", ["", "phone", "session"])
async def test_a_claimed_message_fails_as_perhaps_arrived_when_its_session_is_gone(
    stage: Stage, clock: Clock, pinned: str
) -> None:
    message = await tried(stage, clock, pinned)
    await stage.connect("other", B)
    await sessions.remove(stage.scripts, "w1", proxy="p_w1", phone=A)
    await queues.wake(stage.scripts, A)
    await settle(stage.dispatcher())
    assert await end_of(stage, message) == ("failed", "SENDER_LOST")
    await retry(stage, message)  # it is what a person asked for, knowing that; within what the client has asked for
    if pinned:
        assert await end_of(stage, message) == ("failed", "SENDER_LOST")
    else:
        assert await stage.claim("other", B) == message


async def test_a_retry_of_a_claimed_message_leaves_from_no_other_phone_unless_its_failure_said_so(
    stage: Stage, clock: Clock
) -> None:
    message = await tried(stage, clock)
    await stage.connect("other", B)
    await queues.fail(stage.scripts, Place(message, A, "w1"), reason="NO_ACK", counted="stats")
    await sessions.remove(stage.scripts, "w1", proxy="p_w1", phone=A)
    await retry(stage, message)
    assert await stage.claim("other", B) is None
    assert await end_of(stage, message) == ("failed", "SENDER_LOST")
