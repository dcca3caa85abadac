"""People whom WhatsApp names by LID: the laws hold for them under either name."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from tests.conftest import Clock
from tests.dispatcher.scenario import settle
from tests.messages.conftest import PHONE, MessageApi
from tests.messages.test_incoming import FRIEND, says, tell
from wa_orchestrator.orchestrator.messages import opt_outs
from wa_orchestrator.store import keys
from wa_orchestrator.store.messages import contacts

LID = "77001"
BY_LID = f"lid:{LID}"
OTHER = "97251000002"
LOCK = {"active": True, "type": "DEFAULT"}
HIDDEN: Mapping[str, Any] = {"phone": None, "lid": f"{LID}@lid", "from": f"{LID}@lid"}
BOTH: Mapping[str, Any] = {"phone": FRIEND, "lid": f"{LID}@lid"}


async def leaves(api: MessageApi, clock: Clock) -> str | None:
    """Send what may leave now; return its id."""
    await clock.pass_ms(60_000)
    await settle(api.scenario.dispatcher())
    return await api.scenario.send("w1", PHONE)


async def set_aside(api: MessageApi, to: str) -> str:
    """A message to somebody whom the phone may not write to now; its id."""
    await tell(api, "ACCOUNT_LIMITS", reachoutLock=LOCK)
    message = await api.scenario.accept("w1", PHONE, to=to)
    await settle(api.scenario.dispatcher())
    assert await api.context.redis.zrange(keys.set_aside(PHONE), 0, -1) == [message]
    return message


async def sent_elsewhere(api: MessageApi, name: str = "EEE", **changes: Any) -> None:
    await tell(
        api, "MESSAGE_SENT_ELSEWHERE", whatsappId=name, kind="text", text="from the phone", at=1_750_000_000_000,
        **{"from": f"{LID}@lid", **BOTH, **changes},
    )  # fmt: skip


@pytest.mark.parametrize(("written_as", "next_to"), [(HIDDEN, BY_LID), (BOTH, BY_LID), (BOTH, FRIEND)])
async def test_what_was_set_aside_for_a_lid_leaves_first_once_the_person_has_written(
    api: MessageApi, clock: Clock, written_as: Mapping[str, Any], next_to: str
) -> None:
    first = await set_aside(api, BY_LID)
    await says(api, "hello?", **written_as)
    second = await api.scenario.accept("w1", PHONE, to=next_to)
    assert [await leaves(api, clock), await leaves(api, clock)] == [first, second]


async def test_what_was_set_aside_for_a_lid_leaves_first_once_the_owner_shows_whose_it_is(
    api: MessageApi, clock: Clock
) -> None:
    await says(api, "hello?", phone=FRIEND, lid=None)
    first = await set_aside(api, BY_LID)
    await sent_elsewhere(api)
    second = await api.scenario.accept("w1", PHONE, to=FRIEND)
    assert [await leaves(api, clock), await leaves(api, clock)] == [first, second]


async def test_a_message_to_a_lid_waits_for_no_limit_where_its_phone_has_written(api: MessageApi, clock: Clock) -> None:
    await says(api, "hello?", phone=FRIEND, lid=None)
    await tell(api, "ACCOUNT_LIMITS", reachoutLock=LOCK)
    first = await api.scenario.accept("w1", PHONE, to=BY_LID)
    await contacts.set_names(api.context.scripts, FRIEND, LID)
    second = await api.scenario.accept("w1", PHONE, to=FRIEND)
    assert [await leaves(api, clock), await leaves(api, clock)] == [first, second]


async def test_a_message_to_a_phone_waits_for_no_limit_where_its_lid_has_written(api: MessageApi, clock: Clock) -> None:
    await says(api, "hello?", **HIDDEN)
    await tell(api, "ACCOUNT_LIMITS", reachoutLock=LOCK)
    first = await api.scenario.accept("w1", PHONE, to=FRIEND)
    await contacts.set_names(api.context.scripts, FRIEND, LID)
    second = await api.scenario.accept("w1", PHONE, to=BY_LID)
    assert [await leaves(api, clock), await leaves(api, clock)] == [first, second]


async def shown_by_the_owner(api: MessageApi) -> None:
    await sent_elsewhere(api)
    await sent_elsewhere(api)  # the worker repeats it


async def shown_in_a_group(api: MessageApi) -> None:
    await says(api, "hello all", "GRP", group="1203@g.us", **BOTH)


async def shown_as_the_new_owner(api: MessageApi) -> None:
    await tell(api, "CONTACT_IDENTITY_CHANGED", phone=f"{FRIEND}@s.whatsapp.net", newLid=f"{LID}@lid")


@pytest.mark.parametrize("shown", [shown_by_the_owner, shown_in_a_group, shown_as_the_new_owner])
async def test_who_opted_out_as_a_lid_gets_nothing_under_the_phone_that_is_known_later(
    api: MessageApi, shown: Callable[[MessageApi], Awaitable[None]]
) -> None:
    await says(api, "STOP", **HIDDEN)
    await api.released(to=FRIEND)
    assert await api.scenario.send("w1", PHONE) is not None
    waits = await api.scenario.accept("w1", PHONE, to=FRIEND)
    await shown(api)
    assert await api.scenario.status(waits) == "cancelled"
    assert await contacts.has_opted_out(api.context.scripts, FRIEND, phone=PHONE)


@pytest.mark.parametrize("shown", [shown_by_the_owner, shown_in_a_group, shown_as_the_new_owner])
async def test_what_was_set_aside_for_a_phone_leaves_once_its_lid_turns_out_to_have_written(
    api: MessageApi, clock: Clock, shown: Callable[[MessageApi], Awaitable[None]]
) -> None:
    await says(api, "hello?", **HIDDEN)
    await api.released(to=FRIEND)
    assert await api.scenario.send("w1", PHONE) is not None  # a worker learns of a new owner as it writes to them
    await clock.pass_ms(60_000)
    first = await set_aside(api, FRIEND)
    await shown(api)
    second = await api.scenario.accept("w1", PHONE, to=BY_LID)
    assert [await leaves(api, clock), await leaves(api, clock)] == [first, second]


@pytest.mark.parametrize("when", ["before its release", "before it is written"])
async def test_who_opted_out_as_a_lid_gets_nothing_under_the_phone_that_another_account_learned(
    api: MessageApi, when: str
) -> None:
    await contacts.opt_out_from(api.context.scripts, BY_LID, phone=PHONE)
    waits = await api.scenario.accept("w1", PHONE, to=FRIEND)
    if when == "before its release":
        await contacts.set_names(api.context.scripts, FRIEND, LID)
    await settle(api.scenario.dispatcher())
    claimed = await api.worker().claim()
    await contacts.set_names(api.context.scripts, FRIEND, LID)
    if claimed is not None:
        refused = await api.worker().call(f"{waits}/renew", {"beforeWrite": True})
        assert refused.status_code == 409, refused.text
    assert (await api.scenario.status(waits), await api.scenario.reason(waits)) == ("cancelled", "OPTED_OUT")


async def test_an_opt_in_of_a_number_leaves_its_former_owner_on_the_list(api: MessageApi) -> None:
    await contacts.set_names(api.context.scripts, FRIEND, LID)
    await contacts.set_names(api.context.scripts, OTHER, LID)  # they have this number now
    for name in (FRIEND, BY_LID):
        await contacts.opt_out(api.context.scripts, name, word="", via="api")
    assert await contacts.opt_in(api.context.scripts, FRIEND)
    assert await contacts.has_opted_out(api.context.scripts, BY_LID, phone=PHONE)


async def of_another_account(api: MessageApi) -> None:
    """The LID had this number once; another account has it since."""
    await contacts.set_names(api.context.scripts, FRIEND, LID)
    await api.context.redis.set(keys.lid_of(FRIEND), "88002")


async def test_a_stop_word_of_a_lid_is_not_taken_for_one_of_its_former_number(api: MessageApi) -> None:
    await of_another_account(api)
    await says(api, "STOP", **HIDDEN)
    assert not await contacts.has_opted_out(api.context.scripts, FRIEND, phone=PHONE)
    assert await contacts.has_opted_out(api.context.scripts, BY_LID, phone=PHONE)


async def test_an_opt_out_of_a_lid_cancels_nothing_for_who_has_its_former_number(api: MessageApi) -> None:
    await of_another_account(api)
    theirs = await api.scenario.accept("w1", PHONE, to=FRIEND)
    assert await opt_outs.cancel_for(api.context.scripts, BY_LID) == 0
    assert await api.scenario.status(theirs) == "queued"


async def test_a_former_owner_of_a_number_who_opted_out_is_not_written_to(api: MessageApi) -> None:
    await of_another_account(api)
    await api.released(to=BY_LID)
    claimed = await api.worker().claim()
    assert claimed is not None
    await contacts.opt_out(api.context.scripts, BY_LID, word="", via="api")
    refused = await api.worker().call(f"{claimed['messageId']}/renew", {"beforeWrite": True})
    assert refused.status_code == 409, refused.text


async def test_the_conversation_of_a_lid_stays_with_its_session_once_the_phone_is_known(api: MessageApi) -> None:
    await api.scenario.connect("w2", "972500000002")
    await contacts.set_affinity(api.context.scripts, BY_LID, "w2")
    await says(api, "hello all", "GRP", group="1203@g.us", **BOTH)
    assert await contacts.affinity(api.context.scripts, FRIEND) == "w2"
