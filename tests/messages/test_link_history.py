"""Chats from before a device was linked become conversations, as far as LINK_HISTORY wants them and no further."""

from typing import Any

import pytest

from tests.messages.conftest import PHONE, MessageApi
from tests.messages.test_incoming import FRIEND, says, tell
from wa_orchestrator.store import keys
from wa_orchestrator.store.conversations import imported_conversations
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.messages import contacts

DAY_MS, LID = 86_400_000, "77001"


async def told(api: MessageApi, mode: str, *chats: dict[str, Any]) -> list[dict[str, Any]]:
    """Have the worker tell chats; return the conversations."""
    object.__setattr__(api.context.settings, "link_history", mode)
    await tell(api, "LINK_HISTORY", chats=list(chats))
    listed = (await api.client.get("/api/v1/conversations")).json()
    found: list[dict[str, Any]] = listed["conversations"]
    return found


async def chat(api: MessageApi, age_ms: int = DAY_MS, **changes: Any) -> dict[str, Any]:
    at = await api.context.scripts.now_ms() - age_ms
    texts = [
        {"whatsappId": "3A02", "at": at, "text": "Until six.", "fromMe": True},
        {"whatsappId": "3A01", "at": at - 1000, "text": "Are you open?"},
    ]
    return {"at": at, "phone": FRIEND, "lid": LID, "name": "Dana", "texts": texts, **changes}


async def test_by_default_nothing_of_the_history_is_kept(api: MessageApi) -> None:
    assert api.context.settings.link_history == "off"
    assert await told(api, "off", await chat(api)) == []


async def test_contacts_and_conversations_are_kept_without_their_texts(api: MessageApi) -> None:
    group: dict[str, Any] = {
        "phone": None,
        "lid": None,
        "group": "120363025246125486@g.us",
        "name": "Family",
        "texts": [],
    }
    one = await chat(api)
    found = await told(api, "contacts", one, {**await chat(api, 2 * DAY_MS), **group})
    assert [(each["contact"]["phone"], each["contact"]["name"], each["unread"]) for each in found] == [
        (FRIEND, "Dana", 0), (None, "Family", 0),
    ]  # fmt: skip
    assert [each["lastMessage"] for each in found] == [None, None]
    assert not [key async for key in api.context.redis.scan_iter(match=keys.incoming("w1", "*"))]
    listed = (await api.client.get("/api/v1/contacts?search=dana")).json()
    assert [each["contact"]["phone"] for each in listed["contacts"]] == [FRIEND]


async def test_with_texts_the_thread_has_them_in_their_order_and_nobody_is_told_of_them_as_new(api: MessageApi) -> None:
    before = await event_stream.last_cursor(api.context.scripts)
    [found] = await told(api, "texts", await chat(api))
    assert found["lastMessage"]["text"] == "Until six."
    thread = (await api.client.get(f"/api/v1/conversations/{found['conversationId']}/messages")).json()["messages"]
    assert [each["text"] for each in thread] == ["Until six.", "Are you open?"]
    kinds = {each.fields["type"] for each in await event_stream.read(api.context.scripts, after=before)}
    assert "message.received" not in kinds


async def test_history_makes_nobody_a_known_contact_and_takes_no_conversation(api: MessageApi) -> None:
    await contacts.set_affinity(api.context.scripts, FRIEND, "other")
    await told(api, "texts", await chat(api))
    assert await contacts.affinity(api.context.scripts, FRIEND) == "other"
    assert await api.context.redis.smembers(keys.contacts(PHONE)) == set()
    assert await contacts.lid_of_phone(api.context.scripts, FRIEND) == ""


async def test_who_opted_out_is_shown_so_and_what_waits_goes_on_waiting(api: MessageApi) -> None:
    await contacts.opt_out(api.context.scripts, "972522222222", word="stop", via="reply")
    await says(api, "New", "3A09")
    found = await told(api, "contacts", await chat(api), await chat(api, phone="972522222222", lid=None))
    by_phone = {each["contact"]["phone"]: each for each in found}
    assert by_phone[FRIEND]["unread"] == 1
    assert by_phone["972522222222"]["optedOut"]


@pytest.mark.parametrize(
    "changes", [{"age_ms": 91 * DAY_MS}, {"phone": "12 34", "lid": "x"}, {"phone": None, "lid": None}]
)
async def test_what_is_too_old_or_names_nobody_is_not_kept(api: MessageApi, changes: dict[str, Any]) -> None:
    assert await told(api, "contacts", await chat(api, **changes)) == []


async def test_a_worker_cannot_bring_more_than_a_phone_tells(api: MessageApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imported_conversations, "MOST_PER_DAY", 2)
    await told(api, "contacts", await chat(api, phone="972522222221"), await chat(api, phone="972522222222"))
    assert len(await told(api, "contacts", await chat(api, phone="972522222223"))) == 2
