"""Every kind of message is accepted as it is to be stored, and what contradicts itself is refused."""

import json
from typing import Any

import pytest

from tests.gateway.conftest import BOTH_MODES, PHONE, Gate, code_of
from wa_orchestrator.domain.messages import incoming
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.messages import contacts

pytestmark = BOTH_MODES
FRIEND, LID = "972511111111", "123456789012345"
GROUP = "120363025246125486@g.us"
CARD = {"name": "Dana", "phones": ["+972 50-123-4567"]}
POLL = {"question": "When?", "options": ["Monday", "Sunday"]}


async def stored(gate: Gate, **body: Any) -> tuple[records.Message, dict[str, Any]]:
    """Send a message without a text of its own; return its record and content."""
    response = await gate.client.post("/api/v1/send", json={"to": FRIEND, **body})
    assert response.status_code == 202, response.text
    message = await records.message(gate.scripts, response.json()["messageId"])
    assert message is not None
    return message, json.loads(message.body)


async def refused(gate: Gate, **body: Any) -> tuple[int, str, list[str]]:
    response = await gate.client.post("/api/v1/send", json={"to": FRIEND, **body})
    error = response.json()["error"]
    return response.status_code, code_of(response), [each["path"] for each in error.get("errors", [])]


async def came(gate: Gate, whatsapp_id: str, text: str = "Ready?", **names: str) -> str:
    """Have a person write to the session; return our id of it."""
    who = {"contact_phone": FRIEND, **names}
    message = contacts.Incoming("w1", PHONE, whatsapp_id, "text", fields={"text": text, "at": 5}, **who)  # type: ignore[arg-type]
    await contacts.receive(gate.scripts, message, keep_ms=1_000_000)
    return incoming.id_of("w1", whatsapp_id)


async def test_cards_and_polls_are_stored_as_incoming_ones_are_told(gate: Gate) -> None:
    message, content = await stored(gate, contacts=[CARD])
    assert (message.kind, content) == (
        "contacts",
        {"kind": "contacts", "contacts": [{"name": "Dana", "phones": ["972501234567"]}]},
    )
    message, content = await stored(gate, poll=POLL)
    assert (message.kind, content) == (
        "poll",
        {"kind": "poll", "text": "When?", "poll": {"options": ["Monday", "Sunday"], "selectable": 1}},
    )


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"message": "x", "poll": POLL}, "poll"),
        ({"poll": {**POLL, "options": ["a", "a"]}}, "poll.options"),
        ({"poll": {**POLL, "options": ["a"]}}, "poll.options"),
        ({"poll": {**POLL, "selectable": 3}}, "poll.selectable"),
        ({"contacts": []}, "contacts"),
        ({"contacts": [{"name": "Dana\nTEL:1", "phones": [FRIEND]}]}, "contacts.0.name"),
        ({"message": "Hi", "mentions": [FRIEND]}, "mentions.0"),
        ({"message": "Hi", "mentions": [GROUP]}, "mentions.0"),
        ({"message": "Hi", "to": GROUP}, "sessionId"),
        ({"message": "Hi", "to": "lid:x"}, "to"),
    ],
)
async def test_what_contradicts_itself_is_refused_by_its_field(gate: Gate, body: dict[str, Any], path: str) -> None:
    status, code, paths = await refused(gate, **body)
    assert (status, code) == (422, "VALIDATION_FAILED")
    assert path in paths


async def test_people_are_mentioned_by_phone_and_by_lid(gate: Gate) -> None:
    text = f"@{FRIEND} and @{LID}"
    _, content = await stored(gate, message=text, mentions=[FRIEND, f"lid:{LID}"])
    assert content == {"kind": "text", "text": text, "mentions": [{"phone": FRIEND}, {"lid": LID}]}


@pytest.mark.parametrize("by", ["our id", "their id"])
async def test_a_reply_leaves_from_the_phone_that_has_the_conversation(gate: Gate, by: str) -> None:
    await gate.add_session("w2", "972500000002")
    ours = await came(gate, "3AAA")
    named = {"replyTo": ours} if by == "our id" else {"replyTo": "3AAA", "sessionId": "w1"}
    message, content = await stored(gate, message="Yes", **named)
    assert message.phone == PHONE
    assert content["replyTo"] == {"whatsappId": "3AAA", "phone": FRIEND, "kind": "text", "text": "Ready?"}


async def test_a_reply_quotes_our_own_message_once_it_was_sent(gate: Gate) -> None:
    first, _ = await stored(gate, message="We open at nine.")
    assert (await refused(gate, message="See", replyTo=first.id))[:2] == (409, "QUOTE_NOT_SENT")
    await gate.redis.hset(keys.message(first.id), "status", "delivered")  # type: ignore[misc]
    for name in (first.id, first.whatsapp_id):
        _, content = await stored(gate, message="See", replyTo=name)
        assert content["replyTo"] == {
            "whatsappId": first.whatsapp_id, "fromMe": True, "kind": "text", "text": "We open at nine.",
        }  # fmt: skip


async def test_nobody_is_shown_what_another_wrote(gate: Gate) -> None:
    ours = await came(gate, "3AAA", "a secret", contact_phone="972522222222")
    assert (await refused(gate, message="Yes", replyTo=ours))[:2] == (422, "QUOTE_OF_OTHER_CHAT")
    mine = await came(gate, "3BBB")
    await gate.add_session("w2", "972500000002")
    other = {"phone": "972500000002"}
    assert (await refused(gate, message="Yes", replyTo=mine, **other))[:2] == (409, "QUOTE_OF_OTHER_PHONE")
    assert (await refused(gate, message="Yes", replyTo="m_000000000000000000"))[:2] == (422, "NO_SUCH_QUOTE")


async def test_a_person_who_hides_the_phone_is_answered_by_lid_from_the_session_that_was_written_to(gate: Gate) -> None:
    await gate.add_session("w2", "972500000002")
    await came(gate, "3AAA", contact_phone="", contact_lid=LID)
    message, _ = await stored(gate, to=f"lid:{LID}", message="Hello")
    assert (message.to, message.session) == (f"lid:{LID}", "w1")


async def test_digits_that_are_a_lid_are_no_phone(gate: Gate) -> None:
    assert (await stored(gate, to=LID, message="a phone, as far as we know"))[0].to == LID
    await came(gate, "3AAA", contact_phone="", contact_lid=LID)
    assert (await refused(gate, to=LID, message="Hello"))[:2] == (422, "RECIPIENT_IS_LID")


async def test_a_lid_whose_phone_is_known_is_that_phone_and_its_opt_out_holds(gate: Gate) -> None:
    await came(gate, "3AAA", contact_lid=LID)
    assert (await stored(gate, to=f"lid:{LID}", message="Hello"))[0].to == FRIEND
    await contacts.opt_out(gate.scripts, FRIEND, word="stop", via="reply")
    assert (await refused(gate, to=f"lid:{LID}", message="Hello"))[:2] == (422, "OPTED_OUT")


async def test_a_group_is_written_to_by_the_named_member(gate: Gate) -> None:
    message, _ = await stored(gate, to=GROUP, message="Hello all", sessionId="w1")
    assert (message.to, message.session) == (GROUP, "w1")
