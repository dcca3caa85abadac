"""Reactions, edits, deletions, read marks, typing and look-ups: who may, how often, and what is noted."""

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

import httpx
import pytest

from tests.conftest import Clock
from tests.messages.conftest import PHONE, MessageApi
from tests.messages.test_incoming import FRIEND, says, tell
from wa_orchestrator.domain import conversation
from wa_orchestrator.domain.messages import incoming
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.messages import contacts, holds
from wa_orchestrator.timestamps import FOREVER_MS

THEIRS = incoming.id_of("w1", "3A01")


async def sent(api: MessageApi) -> str:
    """A message that WhatsApp has."""
    message = await api.released(to=FRIEND)
    worker = api.worker()
    claimed = await worker.claim()
    assert claimed is not None
    now_ms = await api.context.scripts.now_ms()
    await worker.call(f"{message}/ack", {"whatsappId": claimed["whatsappId"], "timestamp": now_ms})
    return message


async def act(
    api: MessageApi, path: str, answer: dict[str, Any] | None = None, **body: object
) -> tuple[Any, httpx.Response]:
    """Ask for an act; the worker, if it is asked, answers. Returns the command and the response."""
    return await answered(api, api.client.post(path, json=body), answer)


async def answered(
    api: MessageApi, call: Coroutine[Any, Any, httpx.Response], answer: dict[str, Any] | None = None
) -> tuple[Any, httpx.Response]:
    """Make a call; the worker, if it is asked, answers. Returns the command and the response."""
    asked = asyncio.create_task(call)
    command = None
    while not asked.done() and command is None:
        told = await api.worker().claim(50)
        command = told and told["command"]
    if command is not None:
        await api.worker().call(f"commands/{command['id']}/result", {"ok": True} if answer is None else answer)
    return command, await asked


def code_of(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json().get("error", {}).get("code", "")


async def test_a_reaction_names_the_message_of_the_person_to_the_worker(api: MessageApi) -> None:
    await says(api, "Thanks", "3A01")
    command, response = await act(api, f"/api/v1/messages/{THEIRS}/reaction", emoji="👍")
    assert response.json() == {"done": True}
    told = {name: command.get(name) for name in ("kind", "to", "whatsappId", "text", "fromMe", "phone")}
    assert told == {
        "kind": "react", "to": FRIEND, "whatsappId": "3A01", "text": "👍", "fromMe": None, "phone": FRIEND,
    }  # fmt: skip


async def test_an_edit_changes_the_record_and_a_deletion_is_noted(api: MessageApi) -> None:
    message = await sent(api)
    command, response = await act(api, f"/api/v1/messages/{message}/edit", text="Better")
    assert (response.status_code, command["kind"], command["fromMe"]) == (200, "edit", "yes")
    await act(api, f"/api/v1/messages/{message}/delete")
    record = await records.message(api.context.scripts, message)
    assert record is not None
    assert json.loads(record.body) == {"kind": "text", "text": "Better"}
    assert record.edited_at
    assert record.deleted_at
    notes = [note for _, _, note in await records.timeline(api.context.scripts, message)]
    assert notes[-2:] == ["EDITED", "DELETED"]


async def thread(api: MessageApi) -> dict[str, dict[str, Any]]:
    """The messages of the conversation, by our ids."""
    answer = await api.client.get(f"/api/v1/conversations/{conversation.id_of('w1', FRIEND)}/messages")
    return {each["messageId"]: each for each in answer.json()["messages"]}


async def test_the_conversation_shows_what_we_edited_and_deleted_without_its_text(api: MessageApi) -> None:
    await says(api, "Thanks", "3A01")
    ours = await sent(api)
    await act(api, f"/api/v1/messages/{ours}/edit", text="Better")
    shown = (await thread(api))[ours]
    assert (shown["text"], bool(shown["editedAt"]), shown["deletedAt"]) == ("Better", True, None)
    await act(api, f"/api/v1/messages/{ours}/delete")
    shown = (await thread(api))[ours]
    assert (shown["text"], bool(shown["deletedAt"])) == (None, True)
    [listed] = (await api.client.get("/api/v1/conversations")).json()["conversations"]
    assert (listed["lastMessage"]["messageId"], listed["lastMessage"]["text"]) == (ours, None)


async def test_the_conversation_shows_the_last_reaction_that_we_set_until_it_is_taken_back(
    api: MessageApi, clock: Clock
) -> None:
    await says(api, "Thanks", "3A01")
    ours = await sent(api)
    await act(api, f"/api/v1/messages/{ours}/reaction", emoji="🎉")
    for emoji in ("👍", "❤️"):
        await clock.pass_ms(1)
        await act(api, f"/api/v1/messages/{THEIRS}/reaction", emoji=emoji)
    shown = await thread(api)
    assert (shown[ours]["reactions"], shown[THEIRS]["reactions"]) == (
        [{"emoji": "🎉", "from": None}],
        [{"emoji": "❤️", "from": None}],
    )
    await clock.pass_ms(1)
    await act(api, f"/api/v1/messages/{THEIRS}/reaction", emoji="")
    assert (await thread(api))[THEIRS]["reactions"] == []
    changes = keys.changes_of("w1", "3A01")
    assert await api.context.redis.pttl(changes) > 0  # it ends as texts do
    refused = {"ok": False, "code": "NOT_ALLOWED"}
    await act(api, f"/api/v1/messages/{THEIRS}/reaction", refused, emoji="👎")
    assert (await thread(api))[THEIRS]["reactions"] == []


async def test_a_message_from_the_phone_itself_that_we_delete_is_shown_so(api: MessageApi) -> None:
    await says(api, "Thanks", "3A01")
    person: dict[str, Any] = {
        "from": f"{FRIEND}@s.whatsapp.net",
        "phone": FRIEND,
        "at": await api.context.scripts.now_ms(),
    }
    await tell(api, "MESSAGE_SENT_ELSEWHERE", whatsappId="3A02", kind="text", text="from the phone", **person)
    named = incoming.id_of("w1", "3A02")
    command, _ = await act(api, f"/api/v1/messages/{named}/delete")
    assert command["fromMe"] == "yes"
    assert (await thread(api))[named]["text"] is None


async def test_what_phones_would_not_show_is_refused_before_anybody_is_asked(api: MessageApi, clock: Clock) -> None:
    await says(api, "Thanks", "3A01")
    message = await sent(api)
    waits = await api.scenario.accept("w1", PHONE)
    assert code_of((await act(api, f"/api/v1/messages/{THEIRS}/edit", text="x"))[1]) == (409, "NOT_OURS")
    assert code_of((await act(api, f"/api/v1/messages/{THEIRS}/delete"))[1]) == (409, "NOT_OURS")
    assert code_of((await act(api, f"/api/v1/messages/{message}/read"))[1]) == (409, "NOT_THEIRS")
    assert code_of((await act(api, f"/api/v1/messages/{waits}/edit", text="x"))[1]) == (409, "NOT_SENT")
    await clock.set(await api.context.scripts.now_ms() + 15 * 60_000 + 1)
    command, response = await act(api, f"/api/v1/messages/{message}/edit", text="x")
    assert (command, code_of(response)) == (None, (409, "AMENDED_TOO_LATE"))


async def test_nothing_but_a_deletion_and_a_read_mark_reaches_a_person_who_opted_out(api: MessageApi) -> None:
    await says(api, "Thanks", "3A01")
    message = await sent(api)
    await contacts.opt_out(api.context.scripts, FRIEND, word="stop", via="reply")
    for path, body in (
        (f"/api/v1/messages/{THEIRS}/reaction", {"emoji": "👍"}),
        (f"/api/v1/messages/{message}/edit", {"text": "x"}),
        ("/api/sessions/w1/typing", {"to": FRIEND}),
    ):
        command, response = await act(api, path, None, **body)
        assert (command, code_of(response)) == (None, (422, "OPTED_OUT")), path
    for path in (f"/api/v1/messages/{message}/delete", f"/api/v1/messages/{THEIRS}/read"):
        assert (await act(api, path))[1].status_code == 200


async def test_a_hold_stops_acts_too(api: MessageApi) -> None:
    await says(api, "Thanks", "3A01")
    await holds.put(api.context.scripts, holds.Hold("all", FOREVER_MS, "test", "somebody"))
    command, response = await act(api, f"/api/v1/messages/{THEIRS}/reaction", emoji="👍")
    assert (command, code_of(response)) == (None, (409, "HELD"))


@pytest.mark.parametrize(("path", "most"), [("typing", 20), ("number-check", 10)])
async def test_a_session_does_not_act_more_often_than_it_may(api: MessageApi, path: str, most: int) -> None:
    body = {"to": FRIEND} if path == "typing" else {"phone": FRIEND}
    answer = {"ok": True, "exists": True, "lid": "123456789012345"}
    for _ in range(most):
        assert (await act(api, f"/api/sessions/w1/{path}", answer, **body))[1].status_code == 200
    command, response = await act(api, f"/api/sessions/w1/{path}", None, **body)
    assert (command, code_of(response)) == (None, (429, "ACTS_LIMITED"))


async def test_look_ups_and_blocks_are_answered_by_the_worker(api: MessageApi) -> None:
    _, found = await act(api, "/api/sessions/w1/number-check", {"ok": True, "exists": True, "lid": "123"}, phone=FRIEND)
    assert found.json() == {"phone": FRIEND, "exists": True, "lid": "123"}
    _, found = await act(api, "/api/sessions/w1/profile-picture", {"ok": True, "url": "https://x.example"}, to=FRIEND)
    assert found.json() == {"url": "https://x.example"}
    _, hidden = await act(api, "/api/sessions/w1/profile-picture", {"ok": False, "code": "NOT_SHOWN"}, to=FRIEND)
    assert code_of(hidden) == (404, "NOT_SHOWN")
    command, _ = await act(api, "/api/sessions/w1/block", to=FRIEND, blocked=False)
    assert command["kind"] == "unblock"


@pytest.mark.parametrize(
    ("path", "field"),
    [("typing", "to"), ("number-check", "phone"), ("profile-picture", "to"), ("block", "to")],
)
async def test_digits_that_are_the_lid_of_somebody_are_no_phone_for_any_act(
    api: MessageApi, path: str, field: str
) -> None:
    await api.context.redis.set(keys.phone_of("123456789012345"), "")  # who hides the phone has written
    refused = await api.client.post(f"/api/sessions/w1/{path}", json={field: "123456789012345"})
    assert code_of(refused) == (422, "RECIPIENT_IS_LID")


async def test_digits_that_are_the_lid_of_somebody_are_no_member_of_a_group(api: MessageApi) -> None:
    await api.context.redis.set(keys.phone_of("123456789012345"), "")
    refused = await api.client.delete("/api/sessions/w1/groups/120363025246125486@g.us/members/123456789012345")
    assert code_of(refused) == (422, "RECIPIENT_IS_LID")


async def test_a_refusal_of_whatsapp_and_a_silent_worker_are_told_apart(api: MessageApi) -> None:
    await says(api, "Thanks", "3A01")
    path = f"/api/v1/messages/{THEIRS}/reaction"
    _, refused = await act(api, path, {"ok": False, "code": "WHATSAPP_479"})
    assert code_of(refused) == (409, "ACT_REFUSED")
    assert refused.json()["error"]["reason"] == "WHATSAPP_479"
    _, silent = await act(api, path, {"ok": False, "code": "NO_ANSWER"})
    assert code_of(silent) == (503, "ACT_UNANSWERED")
    await api.context.redis.hset(keys.session("w1"), "status", "disconnected")
    assert code_of((await act(api, path))[1]) == (503, "SESSION_NOT_CONNECTED")
