"""What all linked devices of one account report: told once, and to whoever reaches one of its sessions."""

from typing import Any

import pytest

from tests.messages.conftest import PHONE, MessageApi
from tests.messages.test_incoming import FRIEND, cannot_be_read, says, tell
from wa_orchestrator.domain.access.permissions import EVERYTHING, Reach, Scope, reach_of
from wa_orchestrator.domain.conversation import id_of
from wa_orchestrator.orchestrator.api.events import routes as event_routes
from wa_orchestrator.store import keys
from wa_orchestrator.store.messages import contacts
from wa_orchestrator.store.messages.contacts import Received
from wa_orchestrator.web.auth import Caller

DEVICES = ("w1", "w2", "w3")
OTHER_PHONE = "972500000002"


@pytest.fixture
async def account(api: MessageApi) -> MessageApi:
    """An account with three linked sessions, and another one."""
    for session in DEVICES[1:]:
        await api.scenario.connect(session, PHONE)
    await api.scenario.connect("other", OTHER_PHONE)
    return api


async def told(api: MessageApi, reach: Reach = EVERYTHING) -> list[dict[str, Any]]:
    """The events of messages and calls as a client with this reach gets them."""
    caller = Caller("client", frozenset({Scope.READ}), reach)
    kinds = ("message.*", "call.*", "contact.*")
    found, _, _ = await event_routes.page(api.context, caller, "0", kinds, 100)
    return found


async def test_a_message_that_every_device_reports_is_told_once(account: MessageApi) -> None:
    for session in ("w2", "w1", "w3", "w2"):
        await says(account, "hello", by=session)
    await says(account, "another", "ABD", by="w3")
    events = await account.scenario.events("message.received")
    assert [(each["session"], each["whatsapp_id"]) for each in events] == [("w2", "ABC"), ("w3", "ABD")]


async def test_one_id_at_two_accounts_is_two_messages(account: MessageApi) -> None:
    await says(account, "hello")
    await says(account, "hello", by="other")
    assert [each["phone"] for each in await account.scenario.events("message.received")] == [PHONE, OTHER_PHONE]


async def test_what_the_owner_sends_and_changes_is_told_once(account: MessageApi) -> None:
    person: dict[str, Any] = {"from": f"{FRIEND}@s.whatsapp.net", "phone": FRIEND, "lid": "77001@lid", "at": 1}
    for session in DEVICES:
        await tell(account, "MESSAGE_SENT_ELSEWHERE", by=session, whatsappId="A1", kind="text", text="mine", **person)
        await says(account, "first", "B1", by=session)
        changed: dict[str, Any] = {"kind": "edit", "text": "second", "target": {"whatsappId": "B1"}}
        await tell(account, "MESSAGE_RECEIVED", by=session, whatsappId="B2", **changed, **person)
    for kind in ("message.sent_elsewhere", "message.received", "message.edited"):
        assert len(await account.scenario.events(kind)) == 1, kind
    # They count once for the phone's pace, too.
    assert await account.context.redis.zcard(keys.sent(PHONE)) == 1


async def test_one_that_some_devices_can_read_is_not_told_as_unreadable_afterwards(account: MessageApi) -> None:
    for session in DEVICES:
        await cannot_be_read(account, "A1", by=session)
    await says(account, "hello", "A1", by="w2")
    await says(account, "hello", "A2", by="w2")
    await cannot_be_read(account, "A2", by="w3")
    assert [each["whatsapp_id"] for each in await account.scenario.events("message.undecryptable")] == ["A1"]
    assert [each["whatsapp_id"] for each in await account.scenario.events("message.received")] == ["A1", "A2"]


async def test_a_call_rings_on_every_device_and_is_told_once(account: MessageApi) -> None:
    caller: dict[str, Any] = {"from": "77001@lid", "phone": FRIEND, "lid": "77001@lid", "video": False, "at": 1}
    for session in DEVICES:
        await tell(account, "CALL", by=session, callId="C1", status="offered", **caller)
    assert len(await account.scenario.events("call.received")) == 1


async def test_a_stop_word_opts_out_when_the_device_that_told_it_died_over_it(account: MessageApi) -> None:
    said = contacts.Incoming("w1", PHONE, "ABC", "text", FRIEND, "77001")
    assert isinstance(await contacts.receive(account.context.scripts, said, keep_ms=60_000, opts_out="STOP"), Received)
    assert not await contacts.has_opted_out(account.context.scripts, FRIEND, phone=PHONE)
    await says(account, "STOP", by="w2")
    assert await contacts.has_opted_out(account.context.scripts, FRIEND, phone=PHONE)
    assert len(await account.scenario.events("message.received")) == 1


async def test_a_stop_word_that_every_device_reports_opts_out_once(account: MessageApi) -> None:
    await account.released(to=FRIEND)
    assert await account.worker().claim()  # we have written to the person
    for session in DEVICES:
        await says(account, "STOP", by=session)
    assert len(await account.scenario.events("contact.opted_out")) == 1


async def test_the_conversation_stays_with_the_device_that_told_first(account: MessageApi) -> None:
    for session in ("w2", "w3", "w1"):
        await says(account, "hello", by=session)
    assert await account.context.redis.get(keys.affinity(FRIEND)) == "w2"


async def test_whoever_reaches_one_session_of_the_account_is_told(account: MessageApi) -> None:
    for session in DEVICES:
        await says(account, "hello", by=session)
    [event] = await told(account, reach_of(["w3"], []))
    assert event["data"]["sessionId"] == "w1"
    assert event["data"]["conversationId"] == id_of("w1", FRIEND)
    assert await told(account, reach_of(["other"], [])) == []


async def test_a_device_that_is_linked_later_repeats_nothing(api: MessageApi) -> None:
    await api.scenario.connect("w2", PHONE)
    await says(api, "hello")
    await api.context.redis.srem(keys.sessions_of_phone(PHONE), "w1")  # it told, and was deleted
    await says(api, "hello", by="w2")
    assert len(await api.scenario.events("message.received")) == 1
