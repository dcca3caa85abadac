"""Who has a conversation open, and drafts."""

from redis.asyncio import Redis

from tests.conftest import Clock
from wa_orchestrator.store import keys
from wa_orchestrator.store.conversations import conversation_records, presence
from wa_orchestrator.store.conversations.presence import Attendant, Doing
from wa_orchestrator.store.engine.scripts import Scripts

HERE = ("w1", "972500000001")


async def begin(redis: Redis) -> None:
    await redis.hset(keys.conversation(*HERE), mapping={"session": HERE[0], "contact": HERE[1]})


async def test_those_who_write_are_named_first_and_who_is_silent_has_gone(
    redis: Redis, held: Scripts, clock: Clock
) -> None:
    await begin(redis)
    assert await presence.attend(held, HERE, "p_1", "Dana", Doing.READING)
    assert await presence.attend(held, HERE, "p_2", "Maya Cohen", Doing.WRITING)
    assert await presence.others(held, HERE, "p_3") == [
        Attendant("Maya Cohen", Doing.WRITING), Attendant("Dana", Doing.READING),
    ]  # fmt: skip
    assert await presence.others(held, HERE, "p_2") == [Attendant("Dana", Doing.READING)]
    await clock.pass_ms(presence.GONE_MS + 1)
    assert await presence.others(held, HERE, "p_3") == []


async def test_a_draft_is_its_writer_s_own_and_goes_when_it_is_empty(redis: Redis, scripts: Scripts) -> None:
    await begin(redis)
    await presence.attend(scripts, HERE, "p_1", "Dana", Doing.WRITING, draft="Good morning")
    await presence.attend(scripts, HERE, "p_1", "Dana", Doing.READING)  # without a word about it, it stays
    assert await presence.drafts(scripts, [HERE], "p_1") == {HERE: "Good morning"}
    assert await presence.drafts(scripts, [HERE, ("w1", "none")], "p_2") == {}
    await presence.attend(scripts, HERE, "p_1", "Dana", Doing.READING, draft="")
    assert await presence.drafts(scripts, [HERE], "p_1") == {}


async def test_an_erased_conversation_gets_no_draft_back(redis: Redis, scripts: Scripts) -> None:
    await begin(redis)
    await presence.attend(scripts, HERE, "p_1", "Dana", Doing.WRITING, draft="Good morning")
    await conversation_records.remove(scripts, HERE)
    assert not await presence.attend(scripts, HERE, "p_1", "Dana", Doing.WRITING, draft="Good morning")
    assert await redis.exists(keys.conversation(*HERE)) == 0
