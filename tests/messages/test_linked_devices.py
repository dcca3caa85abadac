"""What all linked devices of one account report: told once, and to whoever reaches one of its sessions."""

from typing import Any

import pytest

from tests.conftest import Clock
from tests.messages.conftest import PHONE, MessageApi
from tests.messages.test_incoming import FRIEND, cannot_be_read, says, tell
from wa_orchestrator.archive.archiver import DAY_MS, Archiver
from wa_orchestrator.domain.access.permissions import EVERYTHING, Reach, Scope, reach_of
from wa_orchestrator.domain.conversation import id_of
from wa_orchestrator.orchestrator.api.events import routes as event_routes
from wa_orchestrator.store import keys, records, sessions
from wa_orchestrator.store.access import api_keys
from wa_orchestrator.store.conversations import conversation_homes
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


async def inbox(api: MessageApi, **query: Any) -> list[dict[str, Any]]:
    """The conversations that are listed."""
    answer = await api.client.get("/api/v1/conversations", params=query)
    return list(answer.json()["conversations"])


async def thread(api: MessageApi, conversation_id: str, **query: Any) -> list[str]:
    """The texts of a conversation, the newest first."""
    answer = await api.client.get(f"/api/v1/conversations/{conversation_id}/messages", params=query)
    return [each["text"] for each in answer.json()["messages"]]


async def all_devices_say(api: MessageApi, clock: Clock, text: str, name: str, first: str) -> None:
    await clock.pass_ms(1)
    for session in sorted(DEVICES, key=lambda each: each != first):
        await says(api, text, name, by=session)


async def removed(api: MessageApi, session: str) -> None:
    """A session is deleted, as its controller does it."""
    known = await records.session(api.context.scripts, session)
    assert known is not None
    await sessions.remove(api.context.scripts, session, proxy=known.proxy, phone=known.phone)
    await conversation_homes.hand_over(api.context.scripts, session, known.phone)


async def test_an_account_has_one_conversation_with_a_contact_however_many_devices_it_has(
    account: MessageApi, clock: Clock
) -> None:
    for number, first in enumerate(("w2", "w1", "w3")):
        await all_devices_say(account, clock, f"text {number}", f"A{number}", first)
    await says(account, "to another account", "A9", by="other")
    own, other = sorted(await inbox(account), key=lambda each: each["unread"], reverse=True)
    assert (own["sessionId"], own["unread"], own["lastMessage"]["text"]) == ("w2", 3, "text 2")
    assert (other["sessionId"], other["unread"]) == ("other", 1)
    assert await thread(account, own["conversationId"]) == ["text 2", "text 1", "text 0"]
    for session in DEVICES:  # whichever of them a list is limited to
        assert [each["conversationId"] for each in await inbox(account, sessionId=session)] == [own["conversationId"]]
    found = (await account.client.get("/api/v1/contacts")).json()["contacts"]
    assert found[0]["conversations"] == [other["conversationId"], own["conversationId"]]
    assert [each["conversationId"] for each in await inbox(account, search="text 1")] == [own["conversationId"]]


async def test_every_event_of_a_conversation_names_it_alike(account: MessageApi, clock: Clock) -> None:
    await all_devices_say(account, clock, "hello", "A1", "w1")
    await all_devices_say(account, clock, "again", "A2", "w3")
    assert {each["data"]["conversationId"] for each in await told(account)} == {id_of("w1", FRIEND)}
    assert "home" not in (await told(account))[1]["data"]


async def test_what_any_device_sends_is_in_the_conversation_and_answers_it(account: MessageApi, clock: Clock) -> None:
    await all_devices_say(account, clock, "hello", "A1", "w1")
    await clock.pass_ms(1)
    await account.released("w3", PHONE, to=FRIEND, fields={"body": '{"text":"an answer"}'})
    [known] = await inbox(account)
    assert (known["state"], known["lastMessage"]["text"]) == ("open", "an answer")
    assert await thread(account, known["conversationId"]) == ["an answer", "hello"]
    assert [each["conversationId"] for each in await inbox(account, search="answer")] == [known["conversationId"]]


async def test_a_conversation_goes_on_in_the_archive_with_every_message_once(account: MessageApi, clock: Clock) -> None:
    texts: list[str] = []
    for number, first in enumerate(("w1", "w2", "w3", "w2", "w1")):
        await clock.pass_ms(1_000)
        texts.insert(0, f"text {number}")
        await all_devices_say(account, clock, texts[0], f"A{number}", first)
    await clock.pass_ms(3 * DAY_MS)
    context = account.context
    await Archiver(context.settings, context.scripts, context.archive).move(clock.now_ms)
    texts.insert(0, "the newest")
    await all_devices_say(account, clock, texts[0], "B1", "w3")
    assert await thread(account, id_of("w1", FRIEND)) == texts
    seen, cursor = [], None
    while True:
        query = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        answer = await account.client.get(f"/api/v1/conversations/{id_of('w1', FRIEND)}/messages", params=query)
        seen += [each["text"] for each in answer.json()["messages"]]
        if (cursor := answer.json()["next"]) is None:
            break
    assert seen == texts


async def test_another_device_answers_while_the_one_that_has_the_conversation_cannot(
    account: MessageApi, clock: Clock
) -> None:
    await all_devices_say(account, clock, "hello", "A1", "w1")
    await account.scenario.put("w1", "disconnected")
    [known] = await inbox(account)
    detail = (await account.client.get(f"/api/v1/conversations/{known['conversationId']}")).json()
    assert (detail["sessionId"], detail["reply"]["to"], detail["reply"]["because"]) == ("w2", FRIEND, "NOTHING")


async def test_a_deleted_device_leaves_its_conversations_with_all_that_was_noted_to_another(
    account: MessageApi, clock: Clock
) -> None:
    await all_devices_say(account, clock, "hello", "A1", "w1")
    old = f"/api/v1/conversations/{id_of('w1', FRIEND)}"
    await account.client.patch(old, json={"notes": "prefers mornings"})
    await removed(account, "w1")
    await clock.pass_ms(1)
    await says(account, "are you there", "A2", by="w3")
    [known] = await inbox(account)
    assert (known["conversationId"], known["sessionId"], known["unread"]) == (id_of("w2", FRIEND), "w2", 2)
    detail = (await account.client.get(old)).json()  # by its earlier id
    assert (detail["conversationId"], detail["notes"]) == (known["conversationId"], "prefers mornings")
    assert (detail["reply"]["to"], detail["reply"]["obstacle"]) == (FRIEND, None)
    assert await thread(account, known["conversationId"]) == ["are you there", "hello"]
    _, secret = await api_keys.create(account.context.scripts, "branch", [Scope.READ], reach=reach_of(["w3"], []))
    seen = await account.client.get("/api/v1/conversations", headers={"X-API-Key": secret})
    assert [each["conversationId"] for each in seen.json()["conversations"]] == [known["conversationId"]]


async def test_an_account_that_is_linked_anew_goes_on_with_its_conversations(account: MessageApi, clock: Clock) -> None:
    await says(account, "hello", "A1", by="other")
    await removed(account, "other")
    assert [each["sessionId"] for each in await inbox(account)] == ["other"]
    await clock.pass_ms(1)
    await account.scenario.connect("newer", OTHER_PHONE)
    await account.context.redis.hset(keys.session("newer"), "epoch", 1)  # as `tell` has it
    await says(account, "hello again", "A2", by="newer")
    [known] = await inbox(account)
    assert (known["sessionId"], known["unread"]) == ("newer", 2)
    assert await thread(account, known["conversationId"]) == ["hello again", "hello"]
