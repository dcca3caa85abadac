"""Conversations over HTTP: what is listed, read, searched and changed."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from unittest.mock import AsyncMock

import pytest

from tests.conftest import Clock
from tests.dispatcher.scenario import settle
from tests.messages.conftest import PHONE, MessageApi
from tests.messages.test_incoming import FRIEND, says, tell
from wa_orchestrator.archive.archiver import DAY_MS, Archiver
from wa_orchestrator.domain import conversation
from wa_orchestrator.domain.access.permissions import Role, Scope, reach_of
from wa_orchestrator.domain.messages import content, incoming
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.messages import conversation_thread, message_search
from wa_orchestrator.store import keys
from wa_orchestrator.store.access import api_keys, people
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.history import erasures
from wa_orchestrator.store.messages import contacts, holds, incoming_messages
from wa_orchestrator.store.sessions import commands
from wa_orchestrator.timestamps import FOREVER_MS

HERE = f"/api/v1/conversations/{conversation.id_of('w1', FRIEND)}"


async def get(api: MessageApi, path: str, **query: Any) -> Any:
    answer = await api.client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def listed(api: MessageApi, **query: Any) -> list[str | None]:
    page = await get(api, "/api/v1/conversations", **query)
    return [each["contact"]["phone"] for each in page["conversations"]]


async def stranger_says(api: MessageApi, phone: str, text: str, name: str = "S1", **more: object) -> None:
    person = {"from": f"{phone}@s.whatsapp.net", "phone": phone, "lid": None, **more}
    await says(api, text, name, **person)


async def test_who_waits_longest_is_first_and_what_was_read_comes_after(api: MessageApi, clock: Clock) -> None:
    for number in range(3):
        await clock.pass_ms(1000)
        await stranger_says(api, f"9725200000{number}", "hello", f"S{number}")
    page = await get(api, "/api/v1/conversations")
    assert [each["contact"]["phone"][-1] for each in page["conversations"]] == ["0", "1", "2"]
    assert (page["waiting"], page["open"], page["closed"]) == (3, 0, 0)
    read = await api.client.post(f"/api/v1/conversations/{page['conversations'][0]['conversationId']}/read", json={})
    assert (read.json()["state"], read.json()["unread"]) == ("open", 0)
    await stranger_says(api, "97252000001", "are you there", "S7")  # does not change its place
    page = await get(api, "/api/v1/conversations")
    found = [(each["contact"]["phone"][-1], each["state"], each["unread"]) for each in page["conversations"]]
    assert found == [("1", "waiting", 2), ("2", "waiting", 1), ("0", "open", 0)]
    seen, cursor = [], None
    while True:
        page = await get(api, "/api/v1/conversations", limit=1, **({"cursor": cursor} if cursor else {}))
        seen += [each["contact"]["phone"][-1] for each in page["conversations"]]
        if (cursor := page["next"]) is None:
            break
    assert seen == ["1", "2", "0"]
    assert await listed(api, state="open") == ["97252000000"]


async def _marks(api: MessageApi) -> list[dict[str, str]]:
    """What the session's worker is asked to mark as read."""
    taken = []
    while (command := await commands.take(api.context.scripts, "w1")) is not None:
        taken.append({name: command[name] for name in ("kind", "to", "whatsappId", "others")})
    return taken


async def test_the_contact_is_told_what_was_read_where_that_is_asked_for(api: MessageApi, clock: Clock) -> None:
    for name in ("3A01", "3A02", "3A03"):
        await says(api, f"Line {name}", name)
        await clock.pass_ms(1000)
    await api.client.post(f"{HERE}/read", json={"until": incoming.id_of("w1", "3A01")})
    assert await _marks(api) == []
    await api.client.post(f"{HERE}/read", json={"until": incoming.id_of("w1", "3A02"), "tell": True})
    assert await _marks(api) == [{"kind": "mark_read", "to": FRIEND, "whatsappId": "3A02", "others": ""}]
    await says(api, "Line 3A04", "3A04")
    left = await api.client.post(f"{HERE}/read", json={"tell": True})
    assert left.json()["unread"] == 0
    assert await _marks(api) == [{"kind": "mark_read", "to": FRIEND, "whatsappId": "3A04", "others": "3A03"}]
    await api.client.post(f"{HERE}/read", json={"tell": True})  # nothing is unread any more
    assert await _marks(api) == []


async def test_nobody_is_told_what_was_read_while_sending_is_on_hold(api: MessageApi) -> None:
    await says(api, "Are you there?", "3A01")
    await holds.put(api.context.scripts, holds.Hold("all", FOREVER_MS, "test", "somebody"))
    assert (await api.client.post(f"{HERE}/read", json={"tell": True})).json()["unread"] == 0
    assert await _marks(api) == []


async def test_what_was_read_counts_as_read_although_the_contact_cannot_be_told(
    api: MessageApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    await says(api, "Are you there?", "3A01")
    away = AsyncMock(side_effect=Unavailable("ARCHIVE_UNAVAILABLE", "The archive cannot be read or written."))
    monkeypatch.setattr(conversation_thread, "page", away)
    assert (await api.client.post(f"{HERE}/read", json={"tell": True})).json().get("unread") == 0
    assert await _marks(api) == []
    assert away.await_count == 1


async def test_a_session_that_has_another_phone_now_marks_nothing_as_read_that_came_to_the_earlier_one(
    api: MessageApi,
) -> None:
    await says(api, "Are you there?", "3A01")
    await api.context.redis.hset(keys.session("w1"), "phone", "972500000009")
    assert (await api.client.post(f"{HERE}/read", json={"tell": True})).json()["unread"] == 0
    assert await _marks(api) == []


async def _notices(api: MessageApi, **query: Any) -> list[tuple[str, str | None, str | None]]:
    page = await get(api, f"{HERE}/messages", **query)
    return [(each["kind"], each["outcome"], each["reason"]) for each in page["notices"]]


async def test_a_thread_tells_of_calls_and_of_messages_that_could_not_be_read(api: MessageApi, clock: Clock) -> None:
    await says(api, "Are you there?", "3A01")
    person: dict[str, Any] = {"from": f"{FRIEND}@s.whatsapp.net", "phone": FRIEND, "at": 1}
    for status in ("offered", "missed"):
        await clock.pass_ms(1000)
        await tell(api, "CALL", callId="c1", status=status, video=True, **person)
    await tell(api, "CALL", callId="c2", status="missed", video=False, group="1203@g.us", **person)
    await clock.pass_ms(1000)
    await tell(api, "MESSAGE_UNDECRYPTABLE", whatsappId="3A02", reason="decrypt", **person)
    await clock.pass_ms(1000)
    await says(api, "Hello?", "3A03")
    assert await _notices(api) == [("call", "missed", None), ("undecryptable", None, "decrypt")]
    newest = await get(api, f"{HERE}/messages", limit=1)
    assert newest["notices"] == []  # they are from the time of the page before
    assert len(await _notices(api, limit=1, cursor=newest["next"])) == 2
    await says(api, "I moved to Haifa", "3A02")  # readable after all
    assert await _notices(api) == [("call", "missed", None)]
    await erasures.erase_facts(api.context.scripts, FRIEND, "")
    assert await api.context.redis.keys(keys.notices("*", FRIEND)) == []


async def test_a_call_is_forgotten_as_messages_are_although_further_ones_come(api: MessageApi, clock: Clock) -> None:
    await says(api, "Are you there?", "3A01")
    person: dict[str, Any] = {"from": f"{FRIEND}@s.whatsapp.net", "phone": FRIEND, "at": 1}
    for name in ("c1", "c2", "c3"):
        await tell(api, "CALL", callId=name, status="missed", video=False, **person)
        await clock.pass_ms(api.context.settings.body_retention_days * DAY_MS // 2 + 1)
    kept: Any = await api.context.redis.zrange(keys.notices(PHONE, FRIEND), 0, -1)
    assert [json.loads(each)["whatsapp_id"] for each in kept] == ["c2", "c3"]


async def test_a_search_reads_whole_messages_only_where_the_text_matches(
    api: MessageApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        await stranger_says(api, f"9725200000{number}", f"word{number}", f"S{number}")
    read: list[tuple[str, str]] = []
    whole = incoming_messages.fields_of_each

    async def counted(scripts: Scripts, names: Sequence[tuple[str, str]]) -> list[Mapping[str, str]]:
        read.extend(names)
        return await whole(scripts, names)

    monkeypatch.setattr(incoming_messages, "fields_of_each", counted)
    assert await listed(api, search="word3") == ["97252000003"]
    assert set(read) == {("w1", "S3")}


@pytest.mark.parametrize("sessions", [[], ["w1"]])
async def test_a_search_goes_on_over_everything_that_is_not_archived_yet(
    api: MessageApi, clock: Clock, monkeypatch: pytest.MonkeyPatch, sessions: list[str]
) -> None:
    monkeypatch.setattr(conversation_thread, "FRESH", 3)
    await stranger_says(api, "97252000000", "the blue one", "S0")
    for number in range(1, 8):
        await clock.pass_ms(1)
        await stranger_says(api, f"9725200000{number}", "something else", f"S{number}")
    scripts = api.context.scripts
    _, secret = await api_keys.create(scripts, "crm", [Scope.READ], reach=reach_of(sessions, []))
    headers = {"X-API-Key": secret}
    for path, name in (("/api/v1/conversations", "conversations"), ("/api/v1/contacts", "contacts")):
        found: list[str] = []
        query = {"search": "blue"}
        for _ in range(9):
            page = (await api.client.get(path, params=query, headers=headers)).json()
            found += [each["contact"]["phone"] for each in page[name]]
            if page["next"] is None:
                break
            query["cursor"] = page["next"]
        assert (found, page["next"]) == (["97252000000"], None), path


async def test_a_search_goes_on_over_what_was_sent_too(api: MessageApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_search, "MAX_EXAMINED", 2)
    await says(api, "hello")
    await api.scenario.accept("w1", PHONE, to=FRIEND, fields={"body": json.dumps({"text": "the blue one"})})
    for number in range(5):
        await api.scenario.accept("w1", PHONE, to=f"9725300000{number}")
    await settle(api.scenario.dispatcher())
    found: list[str] = []
    cursor: dict[str, str] = {}
    for _ in range(9):
        page = await get(api, "/api/v1/conversations", search="blue", **cursor)
        found += [each["contact"]["phone"] for each in page["conversations"]]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert (found, page["next"]) == ([FRIEND], None)


@pytest.mark.parametrize("cursor", ["x", "WzFd", "W1sxLDJdLG51bGxd", "e30"])
async def test_a_malformed_cursor_of_a_search_is_refused(api: MessageApi, cursor: str) -> None:
    answer = await api.client.get("/api/v1/conversations", params={"search": "blue", "cursor": cursor})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "BAD_CURSOR")


async def test_a_thread_has_what_both_wrote_with_quotes_reactions_edits_and_why_something_waits(
    api: MessageApi,
    clock: Clock,
) -> None:
    await says(api, "first", "A1", pushName="Dana", replyTo={"whatsappId": "X9", "text": "our offer"})
    await clock.pass_ms(10)
    ours = await api.scenario.accept("w1", PHONE, to=FRIEND)
    await clock.pass_ms(10)
    person: dict[str, Any] = {"from": f"{FRIEND}@s.whatsapp.net"}
    await tell(
        api, "MESSAGE_RECEIVED", whatsappId="A2", kind="reaction", at=1, text="👍", phone=FRIEND,
        **person, target={"whatsappId": "A1"},
    )  # fmt: skip
    await tell(
        api, "MESSAGE_RECEIVED", whatsappId="A3", kind="edit", at=1, text="first, edited", phone=FRIEND,
        **person, target={"whatsappId": "A1"},
    )  # fmt: skip
    page = await get(api, f"{HERE}/messages")
    mine, first = page["messages"]
    assert (mine["messageId"], mine["direction"], mine["status"]) == (ours, "out", "queued")
    assert mine["waiting"]["because"]
    assert (first["text"], first["originalText"]) == ("first, edited", "first")
    assert first["reactions"] == [{"emoji": "👍", "from": FRIEND}]
    assert first["replyTo"]["text"] == "our offer"
    assert first["from"] == {"phone": FRIEND, "lid": "77001", "name": "Dana"}
    shown = await get(api, HERE)
    assert shown["reply"]["to"] == FRIEND
    assert (shown["unread"], shown["contact"]["name"]) == (1, "Dana")


async def test_what_we_wrote_shows_its_quote_its_cards_its_poll_and_that_it_is_seen_once(api: MessageApi) -> None:
    await says(api, "first", "A1")
    quoted = content.Accompaniment(incoming.Quote("A1", from_me=False, text="first"))
    card = content.ContactCards((incoming.Card("Dana", ("972521234567",)),))
    once = content.Media(content.MediaKind.IMAGE, "image/png", upload="u_1", view_once=True)
    contents = (content.Text("ours"), card, content.PollQuestion("When?", incoming.Poll(("now", "later"), 1)), once)
    for each in contents:
        stored = content.encode(each, quoted)
        await api.scenario.accept("w1", PHONE, to=FRIEND, fields={"kind": stored["kind"], "body": json.dumps(stored)})
    shown = {each["kind"]: each for each in (await get(api, f"{HERE}/messages"))["messages"] if each["status"]}
    assert set(shown) == {"text", "contacts", "poll", "image"}
    for each in shown.values():
        assert each["replyTo"]["messageId"] == incoming.id_of("w1", "A1")
        assert each["replyTo"]["text"] == "first"
    assert shown["contacts"]["contacts"] == [{"name": "Dana", "phones": ["972521234567"]}]
    assert shown["poll"]["poll"] == {"options": ["now", "later"], "selectable": 1}
    assert (shown["image"]["viewOnce"], shown["text"]["viewOnce"]) == (True, False)


async def test_a_thread_goes_on_in_the_archive_without_a_gap_or_a_repetition(api: MessageApi, clock: Clock) -> None:
    both = (api.context.scripts, api.context.archive)
    written = []
    for number in range(12):
        await says(api, f"text {number}", f"A{number:02}")
        written.append(incoming.id_of("w1", f"A{number:02}"))
        if number % 3 == 2:
            written.append(await api.scenario.accept("w1", PHONE, to=FRIEND))
        await clock.pass_ms(1000)
        if number == 7:
            await clock.pass_ms(2 * DAY_MS)
            await api.context.archive.create()
            await Archiver(api.context.settings, *both).move(clock.now_ms)
    assert len(await api.context.archive.incoming_page("w1", [FRIEND], after=None, most=99)) == 8
    seen, cursor = [], None
    while True:
        page = await get(api, f"{HERE}/messages", limit=5, **({"cursor": cursor} if cursor else {}))
        seen += [each["messageId"] for each in page["messages"]]
        if (cursor := page["next"]) is None:
            break
    assert seen == written[::-1]
    (row,) = (await get(api, "/api/v1/conversations"))["conversations"]
    assert (row["unread"], row["lastMessage"]["messageId"]) == (12, seen[1])  # ours is not routed yet


async def test_conversations_are_found_by_number_name_and_text(api: MessageApi) -> None:
    await stranger_says(api, "97252000001", "where is my café order", "S1", pushName="Dana Levi")
    await stranger_says(api, "97252000002", "hello", "S2", pushName="יוסי")
    for text in ("dana", "LEVI", "052-000001", "97252000001", "cafe order"):
        assert await listed(api, search=text) == ["97252000001"], text
    assert await listed(api, search="יוסי") == ["97252000002"]
    assert await listed(api, search="w1") == []
    assert await listed(api, search="*") == []


async def test_people_note_assign_close_and_the_contact_opens_it_again(api: MessageApi) -> None:
    await says(api, "hello", "A1")
    person = await people.create(api.context.scripts, "Maya", Role.OPERATOR, ())
    body = {"notes": "likes blue", "tags": ["vip"], "assignedTo": person.id, "state": "closed"}
    changed = (await api.client.patch(HERE, json=body)).json()
    assert {name: changed[name] for name in body} == body
    assert await listed(api) == []
    assert await listed(api, state="closed") == await listed(api, state="closed", tag="vip") == [FRIEND]
    assert await listed(api, state="closed", assignedTo="somebody") == []
    wrong = await api.client.patch(HERE, json={"assignedTo": "nobody"})
    assert wrong.json()["error"]["code"] == "NO_SUCH_PERSON"
    await says(api, "one more thing", "A2")
    again = await get(api, HERE)
    assert (again["state"], again["notes"], again["assignedTo"]) == ("waiting", "likes blue", person.id)
    events = (await get(api, "/api/v1/events", types="conversation.*"))["events"]
    assert [(each["data"]["change"], each["data"]["conversationId"]) for each in events] == [
        ("assignedTo,notes,state,tags", again["conversationId"])
    ]


async def test_what_the_notes_said_before_is_kept_with_who_wrote_it(api: MessageApi) -> None:
    await says(api, "hello", "A1")
    for text in ("prefers mornings", "prefers evenings", ""):
        shown = (await api.client.patch(HERE, json={"notes": text})).json()
    assert shown["notes"] == ""
    assert [each["text"] for each in shown["earlierNotes"]] == ["prefers evenings", "prefers mornings"]
    assert all(each["at"].startswith("20") and each["by"] for each in shown["earlierNotes"])
    exported = (await api.client.get(f"/api/v1/contacts/{FRIEND}/export")).text
    assert "prefers mornings" in exported


async def test_who_was_known_by_a_hidden_number_keeps_the_conversation_when_the_number_comes(api: MessageApi) -> None:
    hidden = {"from": "77001@lid", "phone": None, "lid": "77001@lid"}
    await says(api, "who am I", "A1", **hidden)
    assert await listed(api) == [None]
    (before,) = (await get(api, "/api/v1/conversations"))["conversations"]
    assert (await get(api, f"/api/v1/conversations/{before['conversationId']}"))["reply"]["to"] == "lid:77001"
    await api.client.patch(f"/api/v1/conversations/{before['conversationId']}", json={"notes": "x"})
    await says(api, "it is me", "A2")
    (row,) = (await get(api, "/api/v1/conversations"))["conversations"]
    assert (row["contact"]["phone"], row["unread"]) == (FRIEND, 2)
    assert (await get(api, f"/api/v1/conversations/{before['conversationId']}"))["notes"] == "x"
    assert [each["text"] for each in (await get(api, f"{HERE}/messages"))["messages"]] == ["it is me", "who am I"]


async def test_a_group_is_read_and_never_waits(api: MessageApi) -> None:
    await says(api, "hello all", "A1", group="1203@g.us", pushName="Dana")
    (row,) = (await get(api, "/api/v1/conversations"))["conversations"]
    assert (row["group"], row["state"], row["unread"], row["contact"]["name"]) == ("1203@g.us", "open", 1, None)
    (said,) = (await get(api, f"/api/v1/conversations/{row['conversationId']}/messages"))["messages"]
    assert said["from"]["name"] == "Dana"
    assert (await get(api, f"/api/v1/conversations/{row['conversationId']}"))["reply"]["to"] == "1203@g.us"


async def test_a_group_is_called_as_whatsapp_told_last_and_found_by_that(api: MessageApi) -> None:
    await says(api, "hello all", "A1", group="1203@g.us", groupName="Building 12", pushName="Dana")
    await says(api, "hi", "A2", group="1203@g.us", pushName="Ruth")  # not told with this one
    (row,) = (await get(api, "/api/v1/conversations", search="building"))["conversations"]
    assert row["contact"]["name"] == "Building 12"
    ours: dict[str, Any] = {"from": "1203@g.us", "group": "1203@g.us", "groupName": "Building 14"}
    await tell(api, "MESSAGE_SENT_ELSEWHERE", whatsappId="A3", kind="text", text="I am here", at=1, **ours)
    (row,) = (await get(api, "/api/v1/conversations"))["conversations"]
    assert row["contact"]["name"] == "Building 14"
    events = (await get(api, "/api/v1/events", after="0", types="message.received"))["events"]
    names = {each["data"]["whatsappId"]: each["data"].get("groupName") for each in events}
    assert names == {"A1": "Building 12", "A2": None}


async def test_who_opted_out_is_shown_so_and_cannot_be_answered(api: MessageApi) -> None:
    await says(api, "hello", "A1")
    await contacts.opt_out(api.context.scripts, FRIEND, word="", via="api")
    shown = await get(api, HERE)
    assert (shown["optedOut"], shown["reply"]["obstacle"], shown["reply"]["to"]) == (True, "OPTED_OUT", None)


async def waiting(api: MessageApi) -> int:
    return int((await get(api, "/api/v1/conversations"))["waiting"])


async def test_who_asked_to_stop_does_not_wait_for_an_answer_and_stays_listed_with_what_was_not_read(
    api: MessageApi,
) -> None:
    await says(api, "hello", "A1")
    await stranger_says(api, "97252000001", "hello", "S1")
    assert await waiting(api) == 2
    await says(api, "STOP", "A2")
    await says(api, "and another thing", "A3")
    assert await waiting(api) == 1
    shown = await get(api, HERE)
    assert (shown["state"], shown["unread"], shown["optedOut"]) == ("open", 3, True)
    assert await listed(api) == ["97252000001", FRIEND]


async def test_who_is_put_on_the_list_of_opt_outs_waits_again_when_taken_off_it(api: MessageApi) -> None:
    await says(api, "hello", "A1")
    await api.client.post("/api/v1/opt-outs/import", json={"text": FRIEND})
    assert await waiting(api) == 0
    assert (await api.client.delete(f"/api/v1/opt-outs/{FRIEND}")).status_code == 200
    assert await waiting(api) == 1
    await api.client.post("/api/v1/opt-outs", json={"phone": FRIEND})
    assert await waiting(api) == 0
    assert [each["change"] for each in await api.scenario.events("conversation.changed")] == ["optedOut"] * 3


async def test_contacts_tell_the_last_message_notes_and_tags_and_are_found_by_what_was_written(
    api: MessageApi, clock: Clock
) -> None:
    await says(api, "where is my order", "A1", pushName="Dana")
    await clock.pass_ms(1000)
    await stranger_says(api, "97252000001", "good morning", "S1")
    await api.client.patch(HERE, json={"notes": "calls back", "tags": ["vip"]})
    every = (await get(api, "/api/v1/contacts"))["contacts"]
    assert {each["contact"]["phone"] for each in every} == {FRIEND, "97252000001"}
    (found,) = (await get(api, "/api/v1/contacts", search="my order"))["contacts"]
    told = (found["contact"]["name"], found["lastMessage"]["text"])
    assert told == ("Dana", "where is my order")
    assert (found["sessionId"], found["tags"], found["notes"]) == ("w1", ["vip"], ["calls back"])
    assert found["lastAt"]
    assert (await get(api, "/api/v1/contacts", search="nothing of that"))["contacts"] == []


async def test_erasing_a_person_takes_the_conversation_along_and_old_ones_end_by_themselves(
    api: MessageApi, clock: Clock
) -> None:
    await says(api, "hello", "A1", pushName="Dana")
    await stranger_says(api, "97252000001", "hello", "S1")
    await erasures.erase_facts(api.context.scripts, FRIEND, "77001")
    assert await listed(api) == ["97252000001"]
    assert (await api.client.get(HERE)).status_code == 404
    await clock.pass_ms(91 * DAY_MS)
    await api.context.archive.create()
    await Archiver(api.context.settings, api.context.scripts, api.context.archive).erase(clock.now_ms)
    redis = api.context.redis
    left = [name async for name in redis.scan_iter("conversation*")]
    assert left == []
    assert await redis.zcard(keys.CONVERSATION_NAMES) == 0


async def test_quick_replies_are_kept_by_name(api: MessageApi) -> None:
    put = await api.client.put("/api/v1/quick-replies/hours", json={"text": "We are open from 9 to 5."})
    assert put.json() == {"name": "hours", "text": "We are open from 9 to 5."}
    assert (await get(api, "/api/v1/quick-replies"))["quickReplies"] == [put.json()]
    assert (await api.client.delete("/api/v1/quick-replies/hours")).json() == {"quickReplies": []}
    gone = await api.client.delete("/api/v1/quick-replies/hours")
    assert gone.json()["error"]["code"] == "NO_SUCH_QUICK_REPLY"
