"""Every kind of message that the server hands out reaches a phone as what it is, over the real wire."""

import base64
from typing import Any

import pytest

from tests.waiting import until
from tests.worker.harness import Rig, Session, new_phone
from wa_orchestrator.messages.conversion import ogg_opus
from wa_orchestrator.simulator.phones import content

pytestmark = pytest.mark.asyncio(loop_scope="session")

DANA, AVI = "972501234567", "972507654321"
#: What the server hands to the worker, and what the phone of the recipient shows.
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "text": ({"text": "Hello"}, {"kind": "text", "text": "Hello"}),
    "location": (
        {"kind": "location", "location": {"latitude": 32.5, "longitude": 34.75}},
        {"kind": "location", "text": "32.5,34.75"},
    ),
    "one card": (
        {"kind": "contacts", "contacts": [{"name": "Dana; Levi", "phones": [DANA]}]},
        {"kind": "contacts", "cards": ["Dana; Levi"]},
    ),
    "cards": (
        {"kind": "contacts", "contacts": [{"name": "Dana", "phones": [DANA, AVI]}, {"name": "Avi", "phones": [AVI]}]},
        {"kind": "contacts", "cards": ["Dana", "Avi"]},
    ),
    "poll": (
        {"kind": "poll", "text": "When?", "poll": {"options": ["Monday", "Sunday"], "selectable": 1}},
        {"kind": "poll", "text": "When?", "options": ["Monday", "Sunday"], "selectable": 1},
    ),
    "poll of many": (
        {"kind": "poll", "text": "Which?", "poll": {"options": ["1", "2", "3"], "selectable": 0}},
        {"kind": "poll", "text": "Which?", "options": ["1", "2", "3"], "selectable": 0},
    ),
}


async def shown(rig: Rig, phone: str, message: str) -> dict[str, Any]:
    """What a phone shows of a message, once it has it."""
    world = rig.world.whatsapp

    def find() -> dict[str, Any] | None:
        return next((entry for entry in world.inbox(phone) if entry["id"] == message), None)

    await until(lambda: find() is not None, f"{phone} shows {message}")
    entry = find()
    assert entry is not None
    parts = entry.get("parts", {})
    cards = {"cards": [card["name"] for card in parts["cards"]]} if "cards" in parts else {}
    return {**entry, **parts, **cards, "vcards": [card["vcard"] for card in parts.get("cards", [])]}


@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_that_we_send_is_shown_as_what_it_is(rig: Rig, linked: Session, kind: str) -> None:
    given, wanted = KINDS[kind]
    friend = new_phone()
    message = await rig.server.send(linked.id, friend, **given)
    await rig.server.acked(message)
    seen = await shown(rig, friend, message["whatsappId"])
    assert {name: seen.get(name) for name in wanted} == wanted


VOICE = {"seconds": 3, "waveform": base64.b64encode(bytes(range(64))).decode(), "mimetype": "audio/ogg; codecs=opus"}
JPEG = base64.b64encode(b"a small jpeg").decode()
#: Files: the content, what the server says of it, and what the phone shows.
FILES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "image": (
        "image",
        {"mimetype": "image/jpeg", "caption": "Look", "width": 640, "height": 320, "thumbnail": JPEG},
        {"kind": "image", "text": "Look", "width": 640, "height": 320, "thumbnail": 12},
    ),
    "view-once": ("image", {"mimetype": "image/jpeg", "viewOnce": True}, {"kind": "image", "view_once": True}),
    "video": (
        "video",
        {"mimetype": "video/mp4", "width": 64, "height": 32, "seconds": 9, "thumbnail": JPEG},
        {"kind": "video", "width": 64, "height": 32, "seconds": 9, "thumbnail": 12},
    ),
    "sticker": ("sticker", {"mimetype": "image/webp", "width": 512, "height": 512}, {"kind": "sticker", "width": 512}),
    "voice": ("voice", VOICE, {"kind": "voice", "seconds": 3, "waveform": 64}),
    "foreign voice": ("voice", VOICE, {"kind": "voice_unplayable", "why": "container"}),
    "document": ("document", {"mimetype": "a/b", "filename": "a.pdf"}, {"kind": "document"}),
    "audio": ("audio", {"mimetype": "audio/mpeg"}, {"kind": "audio"}),
}


@pytest.mark.parametrize("kind", FILES)
async def test_every_kind_of_file_that_we_send_is_shown_as_what_it_is(rig: Rig, linked: Session, kind: str) -> None:
    sent, described, wanted = FILES[kind]
    friend = new_phone()
    data = ogg_opus.write([b"\x48" + bytes([at] * 9) for at in range(7)], 2000, 312) if kind == "voice" else b"data"
    media = {"url": rig.server.publish(data), **described}
    message = await rig.server.send(linked.id, friend, kind=sent, media=media)
    await rig.server.acked(message)
    seen = await shown(rig, friend, message["whatsappId"])
    assert {name: seen.get(name) for name in wanted} == wanted
    assert rig.world.whatsapp.media_of(friend, message["whatsappId"]) == data


async def test_a_card_has_the_number_by_which_whatsapp_finds_the_person(rig: Rig, linked: Session) -> None:
    friend = new_phone()
    card = {"name": "Dana\nTEL:+1", "phones": [DANA]}
    message = await rig.server.send(linked.id, friend, kind="contacts", contacts=[card])
    await rig.server.acked(message)
    [vcard] = (await shown(rig, friend, message["whatsappId"]))["vcards"]
    assert [line for line in vcard.split("\n") if line.startswith("TEL")] == [
        f"TEL;type=CELL;type=VOICE;waid={DANA}:+{DANA}"
    ]


async def test_a_vote_in_a_poll_of_ours_is_told_with_the_chosen_option(rig: Rig, linked: Session) -> None:
    friend, poll = new_phone(), {"options": ["Monday", "Sunday"], "selectable": 1}
    message = await rig.server.send(linked.id, friend, kind="poll", text="When?", poll=poll)
    await rig.server.acked(message)
    await shown(rig, friend, message["whatsappId"])
    vote = content.Vote("vote", message["whatsappId"], ["Sunday"])
    voted = await rig.world.whatsapp.send_content(friend, linked.phone, vote)
    told = (await linked.event("MESSAGE_RECEIVED", whatsappId=voted))["data"]
    assert told["vote"] == {"options": ["Sunday"]}


@pytest.mark.parametrize("migrated", [False, True])
async def test_a_reply_quotes_what_the_person_wrote_and_mentions_by_the_name_of_the_chat(
    rig: Rig, migrated: bool
) -> None:
    session, friend, other = rig.session(), new_phone(), new_phone()
    rig.world.whatsapp.describe_account(session.phone, migrated=migrated, username=None, hides_number=None)
    await session.link()
    wrote = await rig.world.whatsapp.send_text(friend, session.phone, "Are you open?")
    told = (await session.event("MESSAGE_RECEIVED", whatsappId=wrote))["data"]
    await rig.world.whatsapp.send_text(other, session.phone, "me too")
    lid = (await session.event("MESSAGE_RECEIVED", phone=other))["data"]["lid"].partition("@")[0]
    quote = {"whatsappId": wrote, "phone": friend, "kind": "text", "text": "Are you open?"}
    message = await session.say(friend, f"Yes, ask @{other}.", replyTo=quote, mentions=[{"phone": other}])
    await rig.server.acked(message)
    seen = await shown(rig, friend, message["whatsappId"])
    name, jid = (lid, f"{lid}@lid") if migrated else (other, f"{other}@s.whatsapp.net")
    author = told["lid"] if migrated else f"{friend}@s.whatsapp.net"
    assert seen["text"] == f"Yes, ask @{name}."
    assert seen["mentions"] == [jid]
    assert seen["quote"] == {"id": wrote, "author": author, "text": "Are you open?"}


async def test_a_reply_to_our_own_message_shows_it_as_ours(rig: Rig, linked: Session) -> None:
    friend = new_phone()
    first = await linked.say(friend, "We open at nine.")
    await rig.server.acked(first)
    quote = {"whatsappId": first["whatsappId"], "fromMe": True, "text": "not what is shown"}
    second = await linked.say(friend, "And close at five.", replyTo=quote)
    await rig.server.acked(second)
    seen = await shown(rig, friend, second["whatsappId"])
    assert seen["quote"]["text"] == "We open at nine."
    us = (await linked.event("CONNECTED"))["data"]
    assert seen["quote"]["author"].partition("@")[0] in (linked.phone, us["lid"].partition("@")[0].partition(":")[0])


async def test_the_preview_of_a_link_is_shown_as_the_server_read_it(rig: Rig, linked: Session) -> None:
    friend, link = new_phone(), "https://example.com/spring"
    thumbnail = base64.b64encode(b"\xff\xd8 a picture").decode()
    preview = {"url": link, "title": "Spring", "description": "What is new", "thumbnail": thumbnail}
    message = await rig.server.send(linked.id, friend, kind="text", text=f"Look: {link}", preview=preview)
    await rig.server.acked(message)
    (shown,) = rig.world.whatsapp.inbox(friend)
    assert shown["parts"]["preview"] == {
        "url": link,
        "title": "Spring",
        "description": "What is new",
        "thumbnail": True,
    }
