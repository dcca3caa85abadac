"""What the server asks of a worker besides sending is done on the phones of others, over the real wire."""

from functools import partial
from typing import Any

import pytest

from tests.waiting import until
from tests.worker.harness import Rig, Session, new_phone
from wa_orchestrator.simulator.whatsapp.accounts import lid_of

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def act(rig: Rig, session: Session, kind: str, **fields: str) -> dict[str, Any]:
    """Give a command and return its answer."""
    answer = await rig.server.result(session.id, await rig.server.command(session.id, kind, **fields))
    assert isinstance(answer, dict)
    return answer


def shown(rig: Rig, phone: str, message: str) -> dict[str, Any]:
    return next(entry for entry in rig.world.whatsapp.inbox(phone) if entry["id"] == message)


def _is_last_state(rig: Rig, to: str, state: str) -> bool:
    return [each["state"] for each in rig.world.whatsapp.chatstates() if each["to"] == to][-1:] == [state]


async def test_a_reaction_is_shown_on_what_the_person_wrote_and_is_taken_back(rig: Rig, linked: Session) -> None:
    friend = new_phone()
    wrote = await rig.world.whatsapp.send_text(friend, linked.phone, "Thank you!")
    await linked.event("MESSAGE_RECEIVED", whatsappId=wrote)
    named = {"to": friend, "whatsappId": wrote}
    assert await act(rig, linked, "react", **named, text="👍") == {"ok": True}
    assert shown(rig, friend, wrote)["reactions"] == {linked.phone: "👍"}
    assert await act(rig, linked, "react", **named, text="") == {"ok": True}
    assert shown(rig, friend, wrote)["reactions"] == {linked.phone: ""}


async def test_an_edit_and_a_deletion_change_what_the_person_sees(rig: Rig, linked: Session) -> None:
    friend = new_phone()
    message = await linked.say(friend, "We open at nien.")
    await rig.server.acked(message)
    named = {"to": friend, "whatsappId": message["whatsappId"], "fromMe": "yes"}
    assert await act(rig, linked, "edit", **named, text="We open at nine.") == {"ok": True}
    seen = shown(rig, friend, message["whatsappId"])
    assert (seen["text"], seen["edited"]) == ("We open at nine.", True)
    assert await act(rig, linked, "delete", **named) == {"ok": True}
    seen = shown(rig, friend, message["whatsappId"])
    assert (seen["text"], seen["deleted"]) == (None, True)
    assert [entry["id"] for entry in rig.world.whatsapp.inbox(friend)] == [message["whatsappId"]]


async def test_a_caption_is_edited_and_its_picture_stays(rig: Rig, linked: Session) -> None:
    friend, media = new_phone(), {"url": rig.server.publish(b"jpeg"), "mimetype": "image/jpeg", "caption": "Old"}
    message = await rig.server.send(linked.id, friend, kind="image", media=media)
    await rig.server.acked(message)
    named = {"to": friend, "whatsappId": message["whatsappId"], "fromMe": "yes"}
    assert await act(rig, linked, "edit", **named, text="New") == {"ok": True}
    seen = shown(rig, friend, message["whatsappId"])
    assert (seen["kind"], seen["text"], seen["edited"]) == ("image", "New", True)
    assert rig.world.whatsapp.media_of(friend, message["whatsappId"]) == b"jpeg"


def _is_read(rig: Rig, author: str, message: str, reader: str) -> bool:
    return bool(shown(rig, author, message).get("receipts", {}).get(reader) == "read")


async def test_a_read_mark_reaches_the_author_and_typing_is_shown(rig: Rig, linked: Session) -> None:
    friend = new_phone()
    wrote = await rig.world.whatsapp.send_text(friend, linked.phone, "Are you there?")
    await linked.event("MESSAGE_RECEIVED", whatsappId=wrote)
    again = await rig.world.whatsapp.send_text(friend, linked.phone, "Hello?")
    await linked.event("MESSAGE_RECEIVED", whatsappId=again)
    assert await act(rig, linked, "mark_read", to=friend, whatsappId=again, others=wrote) == {"ok": True}
    for message in (wrote, again):
        await until(partial(_is_read, rig, friend, message, linked.phone), "the author sees the mark")
    for asked, word in (("typing", "composing"), ("recording", "recording"), ("paused", "paused")):
        assert await act(rig, linked, "typing", to=friend, text=asked) == {"ok": True}
        await until(partial(_is_last_state, rig, friend, word), f"{word} is shown")


async def test_numbers_and_pictures_are_looked_up_and_a_person_is_blocked(rig: Rig, linked: Session) -> None:
    world, friend, nobody = rig.world.whatsapp, new_phone(), new_phone()
    world.unregister(nobody)
    assert await act(rig, linked, "check_number", to=nobody) == {"ok": True, "exists": False}
    found = await act(rig, linked, "check_number", to=friend)
    assert found["exists"]
    assert found["lid"].isdigit()
    assert await act(rig, linked, "profile_picture", to=friend) == {"ok": False, "code": "NOT_SHOWN"}
    world.set_picture(friend, "https://pps.whatsapp.net/v/1.jpg")
    assert await act(rig, linked, "profile_picture", to=friend) == {
        "ok": True, "url": "https://pps.whatsapp.net/v/1.jpg",
    }  # fmt: skip
    assert await act(rig, linked, "block", to=friend) == {"ok": True}
    assert world.blocked_by(linked.phone) == {friend}
    assert await act(rig, linked, "unblock", to=friend) == {"ok": True}
    assert world.blocked_by(linked.phone) == set()


async def test_whose_a_username_is_whatsapp_tells(rig: Rig, linked: Session) -> None:
    world, friend, shy = rig.world.whatsapp, new_phone(), new_phone()
    world.describe_account(friend, username=f"name.{friend}", hides_number=True)
    world.describe_account(shy, username=f"name.{shy}", username_key="0042")
    named = {"ok": True, "lid": lid_of(friend)}
    assert await act(rig, linked, "find_username", to=f"name.{friend}") == named
    assert await act(rig, linked, "find_username", to="nobody") == {"ok": False, "code": "UNKNOWN_USERNAME"}
    keyless = await act(rig, linked, "find_username", to=f"name.{shy}")
    assert keyless == {"ok": False, "code": "USERNAME_KEY_NEEDED"}
    assert (await act(rig, linked, "find_username", to=f"name.{shy}", text="0042"))["lid"] == lid_of(shy)


async def test_an_act_that_whatsapp_refuses_says_so(rig: Rig, linked: Session) -> None:
    friend = new_phone()
    await rig.world.whatsapp.fault("ack_error", phone=linked.phone, code=479)
    answer = await act(rig, linked, "react", to=friend, whatsappId="3AAA", text="👍")
    assert answer == {"ok": False, "code": "WHATSAPP_479"}
