"""What becomes of the messages of a session that is deleted: none is left, and none leaves from another account."""

import pytest

from tests.dispatcher.stage import settle
from tests.messages.conftest import PHONE, Desk
from wa_orchestrator.orchestrator import leftovers
from wa_orchestrator.store import finding, keys, reading

OTHER = "972500000002"


async def delete(desk: Desk, how: str, session: str = "w1") -> int:
    """Do to a session's messages what its deletion does, its worker being dead."""
    found = await reading.session(desk.context.scripts, session)
    assert found is not None
    await desk.stage.put(session, "stopped")
    return await leftovers.settle(desk.context, found, how)


async def end_of(desk: Desk, message: str) -> tuple[str, str]:
    return await desk.stage.status(message), await desk.stage.reason(message)


@pytest.mark.parametrize("how", ["cancel", "reroute"])
async def test_of_a_deleted_session_no_message_stays_open_wherever_it_was(
    desk: Desk, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "PAGE", 3)
    monkeypatch.setattr(finding, "_OVERLAP", 1)
    sending = await desk.released()
    assert await desk.stage.claim("w1", PHONE) == sending
    waiting = [await desk.stage.accept("w1", PHONE) for _ in range(4)]
    later = await desk.stage.accept("w1", PHONE, due_ms=await desk.context.scripts.now_ms() + 60_000)
    await settle(desk.stage.dispatcher())
    jobs = [await desk.stage.accept("w1", PHONE) for _ in range(7)]
    every = [sending, *waiting, later, *jobs]
    assert await delete(desk, how) == len(every)
    assert {await end_of(desk, message) for message in every} == {("cancelled", "SESSION_DELETED")}
    assert await desk.context.redis.llen(keys.GATEWAY_JOBS) == 0


async def test_another_account_inherits_only_what_nobody_tied_to_this_one(desk: Desk) -> None:
    await desk.stage.connect("heir", OTHER, wanted="running")
    free, to_phone, to_session = [
        await desk.stage.accept("w1", PHONE, fields={"pinned": pin}) for pin in ("", "phone", "session")
    ]
    await delete(desk, "reroute")
    raw = await desk.context.redis.hmget(keys.message(free), ["status", "session", "phone"])
    assert raw == ["queued", "heir", OTHER]
    assert await end_of(desk, to_phone) == ("cancelled", "SESSION_DELETED")
    assert await end_of(desk, to_session) == ("cancelled", "SESSION_DELETED")


async def test_what_whatsapp_may_have_goes_on_only_from_the_same_phone(desk: Desk) -> None:
    await desk.stage.connect("sibling", PHONE, wanted="running")
    sending = await desk.released()
    assert await desk.stage.claim("w1", PHONE) == sending
    await delete(desk, "reroute")
    raw = await desk.context.redis.hmget(keys.message(sending), ["status", "session", "phone"])
    assert raw == ["queued", "sibling", PHONE]


@pytest.mark.parametrize("pinned", ["", "session"])
async def test_a_session_that_got_another_phone_says_nothing_of_its_old_one(desk: Desk, pinned: str) -> None:
    message = await desk.stage.accept("w1", PHONE, fields={"pinned": pinned})
    await desk.stage.dispatcher().router.step()
    await desk.context.redis.hset(keys.session("w1"), "phone", OTHER)
    await desk.context.redis.srem(keys.sessions_of_phone(PHONE), "w1")
    await settle(desk.stage.dispatcher())
    phone, status = await desk.context.redis.hmget(keys.message(message), ["phone", "status"])
    assert (phone, status) == ((PHONE, "queued") if pinned else (OTHER, "scheduled"))
