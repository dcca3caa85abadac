"""Messages of a deleted or relinked session: all are ended or rerouted, none is sent from a wrong account."""

from typing import Any

import pytest

from tests.conftest import Clock
from tests.dispatcher.scenario import settle
from tests.messages.conftest import PHONE, MessageApi
from tests.messages.test_incoming import tell
from wa_orchestrator.orchestrator.sessions import queue_handover
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.messages import open_messages, queues
from wa_orchestrator.store.messages.message_keys import Place

OTHER = "972500000002"


async def delete(api: MessageApi, how: str, session: str = "w1") -> int:
    """Do to a session's messages what its deletion does, its worker being dead."""
    found = await records.session(api.context.scripts, session)
    assert found is not None
    await api.scenario.put(session, "stopped")
    return await queue_handover.hand_over(api.context, found, how)


async def end_of(api: MessageApi, message: str) -> tuple[str, str]:
    return await api.scenario.status(message), await api.scenario.reason(message)


async def relink(api: MessageApi) -> None:
    """Link the session to another phone, as its record shows it then."""
    await api.context.redis.hset(keys.session("w1"), "phone", OTHER)
    await api.context.redis.srem(keys.sessions_of_phone(PHONE), "w1")


@pytest.mark.parametrize("how", ["cancel", "reroute"])
async def test_no_message_of_a_deleted_session_stays_open(
    api: MessageApi, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_messages, "PAGE", 3)
    monkeypatch.setattr(open_messages, "_OVERLAP", 1)
    sending = await api.released()
    assert await api.scenario.claim("w1", PHONE) == sending
    waiting = [await api.scenario.accept("w1", PHONE) for _ in range(4)]
    later = await api.scenario.accept("w1", PHONE, due_ms=await api.context.scripts.now_ms() + 60_000)
    await settle(api.scenario.dispatcher())
    jobs = [await api.scenario.accept("w1", PHONE) for _ in range(7)]
    every = [sending, *waiting, later, *jobs]
    assert await delete(api, how) == len(every)
    assert await end_of(api, sending) == ("unknown", "SENDER_LOST")  # its recipient may have it
    assert {await end_of(api, message) for message in every[1:]} == {("cancelled", "SESSION_DELETED")}
    assert await api.context.redis.llen(keys.GATEWAY_JOBS) == 0


async def test_another_account_takes_over_only_messages_that_are_not_pinned(api: MessageApi) -> None:
    await api.scenario.connect("heir", OTHER, wanted="running")
    free, to_phone, to_session = [
        await api.scenario.accept("w1", PHONE, fields={"pinned": pin}) for pin in ("", "phone", "session")
    ]
    await delete(api, "reroute")
    raw = await api.context.redis.hmget(keys.message(free), ["status", "session", "phone"])
    assert raw == ["queued", "heir", OTHER]
    assert await end_of(api, to_phone) == ("cancelled", "SESSION_DELETED")
    assert await end_of(api, to_session) == ("cancelled", "SESSION_DELETED")


async def test_the_messages_of_a_deleted_session_are_shared_among_the_others_by_their_room(api: MessageApi) -> None:
    await api.scenario.connect("w2", OTHER, wanted="running")
    await api.scenario.connect("w3", "972500000003", wanted="running")
    messages = [await api.scenario.accept("w1", PHONE, to=f"9725100000{n}") for n in range(4)]
    await delete(api, "reroute")
    heirs = [await api.context.redis.hget(keys.message(message), "session") for message in messages]
    assert sorted(map(str, heirs)) == ["w2", "w2", "w3", "w3"]


async def test_the_messages_of_a_deleted_session_to_one_person_all_leave_from_one_phone(api: MessageApi) -> None:
    await api.scenario.connect("w2", OTHER, wanted="running")
    await api.scenario.connect("w3", "972500000003", wanted="running")
    messages = [await api.scenario.accept("w1", PHONE, to="97251000009") for _ in range(4)]
    await delete(api, "reroute")
    assert len({await api.context.redis.hget(keys.message(message), "session") for message in messages}) == 1


async def test_the_messages_of_a_deleted_session_arrive_in_their_order_although_they_move_one_by_one(
    api: MessageApi, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.scenario.connect("heir", OTHER, wanted="running")
    messages = [await api.scenario.accept("w1", PHONE) for _ in range(3)]
    dispatcher = api.scenario.dispatcher()
    await dispatcher.router.step()
    arrived: list[str | None] = []
    reroute = queues.reroute

    async def slow_reroute(*args: Any, **named: Any) -> Any:
        moved = await reroute(*args, **named)
        await clock.pass_ms(60_000)
        await settle(dispatcher)
        arrived.append(await api.scenario.send("heir", OTHER))
        return moved

    monkeypatch.setattr(queues, "reroute", slow_reroute)
    await delete(api, "reroute")
    assert arrived == messages


@pytest.mark.parametrize(
    ("how", "ends_as"), [("cancel", ["cancelled", "SESSION_DELETED"]), ("reroute", ["scheduled", ""])]
)
async def test_what_is_set_aside_does_not_stay_behind_when_its_session_is_deleted(
    api: MessageApi, how: str, ends_as: list[str]
) -> None:
    await api.scenario.connect("heir", OTHER, wanted="running")
    await tell(api, "ACCOUNT_LIMITS", reachoutLock={"active": True, "type": "DEFAULT"})
    aside = await api.scenario.accept("w1", PHONE)
    await settle(api.scenario.dispatcher())
    assert await api.context.redis.zrange(keys.set_aside(PHONE), 0, -1) == [aside]
    await delete(api, how)
    await settle(api.scenario.dispatcher())
    assert list(await end_of(api, aside)) == ends_as
    assert not await api.context.redis.exists(keys.set_aside(PHONE))


async def test_what_is_set_aside_at_a_phone_that_its_session_left_goes_with_the_others(
    api: MessageApi, clock: Clock
) -> None:
    await tell(api, "ACCOUNT_LIMITS", reachoutLock={"active": True, "type": "DEFAULT"})
    aside, other = [await api.scenario.accept("w1", PHONE) for _ in range(2)]
    await settle(api.scenario.dispatcher())
    assert await api.context.redis.zrange(keys.set_aside(PHONE), 0, -1) == [aside, other]
    await relink(api)
    await queues.wake(api.context.scripts, PHONE)
    arrived = []
    for _ in range(2):
        await settle(api.scenario.dispatcher())
        arrived.append(await api.scenario.send("w1", OTHER))
        await clock.pass_ms(60_000)
    assert arrived == [aside, other]


async def test_a_message_that_whatsapp_may_have_is_resent_only_from_the_same_phone(api: MessageApi) -> None:
    await api.scenario.connect("sibling", PHONE, wanted="running")
    sending = await api.released()
    assert await api.scenario.claim("w1", PHONE) == sending
    await delete(api, "reroute")
    raw = await api.context.redis.hmget(keys.message(sending), ["status", "session", "phone"])
    assert raw == ["queued", "sibling", PHONE]


async def test_an_attempted_message_fails_when_its_session_gets_another_phone_and_a_retry_uses_that(
    api: MessageApi, clock: Clock
) -> None:
    tried = await api.released(fields={"pinned": "session"})
    worker = api.worker()
    claimed = await worker.claim()
    assert claimed is not None
    assert (await worker.nack(claimed, "NO_ACK")).status_code == 200
    await relink(api)
    await clock.pass_ms(60_000)
    await settle(api.scenario.dispatcher())
    assert await end_of(api, tried) == ("unknown", "SESSION_RELINKED")
    assert await api.context.redis.hget(keys.stats("w1", "20250615"), "unknown") == "1"
    await queues.retry(api.context.scripts, Place(tried, PHONE, "w1"), to="97251000001")
    await settle(api.scenario.dispatcher())
    raw = await api.context.redis.hmget(keys.message(tried), ["status", "session", "phone"])
    assert raw == ["scheduled", "w1", OTHER]


@pytest.mark.parametrize("pinned", ["", "session"])
async def test_messages_of_a_session_are_sent_from_its_current_phone(api: MessageApi, pinned: str) -> None:
    message = await api.scenario.accept("w1", PHONE, fields={"pinned": pinned})
    await api.scenario.dispatcher().router.step()
    await relink(api)
    await settle(api.scenario.dispatcher())
    phone, status = await api.context.redis.hmget(keys.message(message), ["phone", "status"])
    assert (phone, status) == (OTHER, "scheduled")
