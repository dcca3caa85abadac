"""Every kind of message that a person can send is reported as what it is, over the real wire."""

import base64
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.pictures import in_base64, jpeg
from tests.worker.harness import Rig, Session, new_phone
from wa_orchestrator.simulator.phones import actions, content
from wa_orchestrator.simulator.protocol import protobuf
from wa_orchestrator.simulator.whatsapp.server import WhatsApp

pytestmark = pytest.mark.asyncio(loop_scope="session")

Act = Callable[[WhatsApp, str, str], Awaitable[str]]


def sends(what: content.Content) -> Act:
    return lambda world, friend, phone: world.send_content(friend, phone, what)


def sends_file(kind: str, mimetype: str, **options: Any) -> Act:
    return lambda world, friend, phone: world.send_media(friend, phone, kind, b"12345", mimetype, **options)


async def sends_album(world: WhatsApp, friend: str, phone: str) -> str:
    parent = await world.begin_album(friend, phone, 2, 0)
    return await world.send_media(friend, phone, "image", b"one", "image/jpeg", album=parent)


async def votes(world: WhatsApp, friend: str, phone: str) -> str:
    poll = await world.send_content(friend, phone, content.Poll("poll", "When?", ["Monday", "Sunday"]))
    return await world.send_content(friend, phone, content.Vote("vote", poll, ["Sunday"]))


KINDS: dict[str, tuple[Act, dict[str, Any]]] = {
    "text": (sends(content.Words("text", "Hello")), {"kind": "text", "text": "Hello"}),
    "reply": (
        sends(content.Words("text", "Yes", quotes="3EB0AA", quoted_text="Ready?")),
        {"kind": "text", "replyTo": {"whatsappId": "3EB0AA", "kind": "text", "text": "Ready?"}},
    ),
    "forwarded": (sends(content.Words("text", "See", forwarded=True)), {"kind": "text", "forwarded": True}),
    "image": (
        sends_file("image", "image/jpeg", caption="Look"),
        {"kind": "image", "text": "Look", "media": {"mimetype": "image/jpeg", "size": 5}},
    ),
    "view-once": (sends_file("image", "image/jpeg", form="view_once"), {"kind": "image", "viewOnce": True}),
    "video": (sends_file("video", "video/mp4"), {"kind": "video", "media": {"mimetype": "video/mp4", "size": 5}}),
    "voice": (
        sends_file("audio", "audio/ogg; codecs=opus", form="voice"),
        {"kind": "voice", "media": {"mimetype": "audio/ogg; codecs=opus", "size": 5, "seconds": 3}},
    ),
    "audio": (sends_file("audio", "audio/mpeg"), {"kind": "audio", "media": {"mimetype": "audio/mpeg", "size": 5}}),
    "document": (
        sends_file("document", "application/pdf", name="a.pdf"),
        {"kind": "document", "media": {"mimetype": "application/pdf", "size": 5, "filename": "a.pdf"}},
    ),
    "sticker": (
        sends_file("sticker", "image/webp"),
        {"kind": "sticker", "media": {"mimetype": "image/webp", "size": 5}},
    ),
    "album": (sends_album, {"kind": "image"}),
    "location": (
        sends(content.Place("location", 32.5, 34.75, "Office", "1 Main St")),
        {
            "kind": "location",
            "location": {"latitude": 32.5, "longitude": 34.75, "name": "Office", "address": "1 Main St"},
        },
    ),
    "live location": (
        sends(content.Place("live_location", 32.5, 34.75)),
        {"kind": "live_location", "location": {"latitude": 32.5, "longitude": 34.75}},
    ),
    "contacts": (
        sends(content.Cards("contacts", {"Dana": "972501234567", "Avi": "972507654321"})),
        {
            "kind": "contacts",
            "contacts": [{"name": "Dana", "phones": ["972501234567"]}, {"name": "Avi", "phones": ["972507654321"]}],
        },
    ),
    "poll": (
        sends(content.Poll("poll", "When?", ["Monday", "Sunday"])),
        {"kind": "poll", "text": "When?", "poll": {"options": ["Monday", "Sunday"], "selectable": 1}},
    ),
    "vote": (votes, {"kind": "vote", "vote": {"options": ["Sunday"]}}),
    "reaction": (
        sends(content.Reaction("reaction", "3EB0AA", "👍")),
        {"kind": "reaction", "text": "👍", "target": {"whatsappId": "3EB0AA", "fromMe": True}},
    ),
    "edit": (
        sends(content.Edit("edit", "3AFF", "Corrected")),
        {"kind": "edit", "text": "Corrected", "target": {"whatsappId": "3AFF"}},
    ),
    "deletion": (sends(content.Deletion("deletion", "3AFF")), {"kind": "deletion", "target": {"whatsappId": "3AFF"}}),
    "button": (
        sends(content.Answer("button_answer", "Stop", "b1")),
        {"kind": "button_answer", "text": "Stop", "choice": "b1"},
    ),
    "list": (
        sends(content.Answer("list_answer", "Row 2", "r2")),
        {"kind": "list_answer", "text": "Row 2", "choice": "r2"},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_every_kind_that_a_phone_sends_is_reported_as_what_it_is(rig: Rig, linked: Session, kind: str) -> None:
    act, wanted = KINDS[kind]
    friend = new_phone()
    message = await act(rig.world.whatsapp, friend, linked.phone)
    reported = (await linked.event("MESSAGE_RECEIVED", whatsappId=message))["data"]
    assert {name: reported.get(name) for name in wanted} == wanted
    assert reported["phone"] == friend
    assert reported["lid"].endswith("@lid")


PICTURE = jpeg()
WITH_PICTURES: dict[str, Act] = {
    "image": sends_file("image", "image/jpeg", thumbnail=PICTURE),
    "video": sends_file("video", "video/mp4", thumbnail=PICTURE),
    "document": sends_file("document", "application/pdf", name="a.pdf", thumbnail=PICTURE),
    "link": sends(
        content.Words("text", "https://shop.test", page="https://shop.test", thumbnail=in_base64(PICTURE))
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", WITH_PICTURES)
async def test_the_small_picture_that_comes_with_a_message_is_reported(rig: Rig, linked: Session, kind: str) -> None:
    message = await WITH_PICTURES[kind](rig.world.whatsapp, new_phone(), linked.phone)
    reported = (await linked.event("MESSAGE_RECEIVED", whatsappId=message))["data"]
    assert base64.b64decode(reported["thumbnail"]) == PICTURE


@pytest.mark.parametrize(
    "described", [{"form": "view_once", "thumbnail": PICTURE}, {"thumbnail": PICTURE + bytes(16_384)}, {}]
)
async def test_a_small_picture_that_is_long_or_may_be_seen_once_is_not_reported(
    rig: Rig, linked: Session, described: dict[str, Any]
) -> None:
    message = await sends_file("image", "image/jpeg", **described)(rig.world.whatsapp, new_phone(), linked.phone)
    assert "thumbnail" not in (await linked.event("MESSAGE_RECEIVED", whatsappId=message))["data"]


async def test_an_album_names_its_head_on_every_file_and_the_head_alone_is_no_message(
    rig: Rig, linked: Session
) -> None:
    world, friend = rig.world.whatsapp, new_phone()
    head = await world.begin_album(friend, linked.phone, 2, 0)
    files = [
        await world.send_media(friend, linked.phone, "image", data, "image/png", album=head) for data in (b"1", b"2")
    ]
    for message in files:
        assert (await linked.event("MESSAGE_RECEIVED", whatsappId=message))["data"]["album"] == head
    assert not [each for each in linked.station.events if each["data"].get("whatsappId") == head]


async def test_a_group_message_names_the_group_its_writer_and_whom_it_mentions(rig: Rig, linked: Session) -> None:
    world, friend, other = rig.world.whatsapp, new_phone(), new_phone()
    group = await world.create_group(friend, "Friends", [linked.phone, other])
    words = content.Words("text", "@you, see", mentions=[linked.phone])
    message = await world.send_content(friend, group, words)
    reported = (await linked.event("MESSAGE_RECEIVED", whatsappId=message))["data"]
    assert (reported["group"], reported["phone"]) == (group, friend)
    assert reported["lid"].endswith("@lid")
    assert len(reported["mentions"]) == 1
    assert reported["mentions"][0]["phone"] == linked.phone


async def test_what_a_person_sends_to_a_whole_list_is_a_message_of_that_person(rig: Rig, linked: Session) -> None:
    world, friend = rig.world.whatsapp, new_phone()
    message = await world.send_text(friend, linked.phone, "New opening hours", via_list="1723456789")
    reported = (await linked.event("MESSAGE_RECEIVED", whatsappId=message))["data"]
    assert (reported["phone"], reported["text"]) == (friend, "New opening hours")
    assert reported["lid"].endswith("@lid")
    assert "group" not in reported
    assert "broadcast" not in reported["from"]


async def test_what_the_owner_sends_from_the_phone_is_reported_with_its_recipient_and_our_own_sends_are_not(
    rig: Rig, linked: Session
) -> None:
    world, friend = rig.world.whatsapp, new_phone()
    ours = await linked.say(friend, "from the product")
    await linked.event("MESSAGE_SENT", messageId=ours["messageId"])
    message = await world.send_text(linked.phone, friend, "from the phone")
    reported = (await linked.event("MESSAGE_SENT_ELSEWHERE", whatsappId=message))["data"]
    assert (reported["phone"], reported["kind"], reported["text"]) == (friend, "text", "from the phone")
    assert reported["lid"].endswith("@lid")
    assert "pushName" not in reported
    elsewhere = [each["data"]["text"] for each in linked.station.events if each["type"] == "MESSAGE_SENT_ELSEWHERE"]
    assert elsewhere == ["from the phone"]


async def test_the_small_picture_of_what_the_owner_sends_elsewhere_is_reported(rig: Rig, linked: Session) -> None:
    message = await WITH_PICTURES["image"](rig.world.whatsapp, linked.phone, new_phone())
    reported = (await linked.event("MESSAGE_SENT_ELSEWHERE", whatsappId=message))["data"]
    assert base64.b64decode(reported["thumbnail"]) == PICTURE


@pytest.mark.parametrize(
    ("ends", "outcome"),
    [(["timeout"], "missed"), (["hang_up"], "missed"), (["reject"], "rejected"), (["accept", "hang_up"], "answered")],
)
async def test_a_call_is_reported_when_it_comes_and_when_it_has_ended(
    rig: Rig, linked: Session, ends: list[str], outcome: str
) -> None:
    world, friend = rig.world.whatsapp, new_phone()
    call = await world.call(friend, linked.phone, video=True)
    offered = (await linked.event("CALL", callId=call, status="offered"))["data"]
    assert (offered["phone"], offered["video"]) == (friend, True)
    for how in ends:
        await world.end_call(friend, linked.phone, call, how)
    ended = (await linked.event("CALL", callId=call, status=outcome))["data"]
    assert ended["phone"] == friend


async def test_a_session_that_takes_no_calls_rejects_them_at_once_and_reports_each_once(rig: Rig) -> None:
    world, friend, session = rig.world.whatsapp, new_phone(), rig.session(REJECT_CALLS="true")
    await session.link()
    call = await world.call(friend, session.phone)
    ended = (await session.event("CALL", callId=call, status="rejected"))["data"]
    assert (ended["phone"], world.rejected_calls(friend)) == (friend, [call])
    await world.end_call(friend, session.phone, call, "hang_up")
    after = await world.send_text(friend, session.phone, "Why?")
    await session.event("MESSAGE_RECEIVED", whatsappId=after)
    told = [each["data"]["status"] for each in session.station.events if each["type"] == "CALL"]
    assert told == ["offered", "rejected"]


async def test_an_edit_that_only_the_secret_of_its_message_opens_is_read(rig: Rig, linked: Session) -> None:
    world, friend = rig.world.whatsapp, new_phone()
    first = await world.send_content(friend, linked.phone, content.Words("text", "See you at nien"))
    await linked.event("MESSAGE_RECEIVED", whatsappId=first)
    corrected = content.Edit("edit", first, "See you at nine", sealed=True)
    edit = await world.send_content(friend, linked.phone, corrected)
    told = (await linked.event("MESSAGE_RECEIVED", whatsappId=edit))["data"]
    assert (told["kind"], told["text"], told["target"]) == ("edit", "See you at nine", {"whatsappId": first})


async def test_a_person_cannot_edit_what_another_wrote(rig: Rig, linked: Session) -> None:
    world, friend = rig.world.whatsapp, new_phone()
    await world.send_content(friend, linked.phone, content.Edit("edit", "3EB0AA", "I owe you", own=False))
    after = await world.send_text(friend, linked.phone, "afterwards")
    await linked.event("MESSAGE_RECEIVED", whatsappId=after)
    told = [each["data"] for each in linked.station.events if each["type"] == "MESSAGE_RECEIVED"]
    assert [each["kind"] for each in told if each["phone"] == friend] == ["text"]


@pytest.mark.parametrize(
    ("message", "read"),
    [
        ({38: {1: "o1", 3: 2, 6: "Both in blue", 7: "Frames"}}, "Frames\nBoth in blue"),
        ({28: {1: "1@g.us", 4: "Course 7", 6: "Join us"}}, "Course 7\nJoin us"),
        ({30: {}}, None),
    ],
)
async def test_what_people_read_in_an_order_or_an_invitation_is_told(
    rig: Rig, linked: Session, message: protobuf.Layout, read: str | None
) -> None:
    world, friend = rig.world.whatsapp, new_phone()
    state = world._state
    sent = actions.send_message(state, state.accounts.phone(friend), linked.phone, protobuf.encode(message))
    reported = (await linked.event("MESSAGE_RECEIVED", whatsappId=sent))["data"]
    assert (reported["kind"], reported.get("text")) == ("other", read)


async def test_a_mention_that_is_no_person_is_not_told(rig: Rig, linked: Session) -> None:
    world, friend = rig.world.whatsapp, new_phone()
    mentioned = ["<script>@s.whatsapp.net", "9" * 5000 + "@lid", f"{linked.phone}@s.whatsapp.net"]
    message = protobuf.encode({6: {1: "@you", 17: {1: "3A00", 2: "nobody", 15: mentioned}}})
    sent = actions.send_message(world._state, world._state.accounts.phone(friend), linked.phone, message)
    reported = (await linked.event("MESSAGE_RECEIVED", whatsappId=sent))["data"]
    assert [each["phone"] for each in reported["mentions"]] == [linked.phone]
    assert reported["replyTo"] == {"whatsappId": "3A00"}
