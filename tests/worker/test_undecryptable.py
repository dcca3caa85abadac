"""What cannot be decrypted is told once, told again as the message when it can be, and holds nobody else up."""

import contextlib
import sqlite3
import time

import pytest

from tests.waiting import promised, until
from tests.worker.harness import Rig, Session, new_phone
from wa_orchestrator.simulator.phones.content import Deletion, Edit

pytestmark = pytest.mark.asyncio(loop_scope="session")

LOST = 12
"""Each would cost two seconds and more if the phone were asked before the author: more together than a busy machine needs."""


def _told(session: Session, kind: str) -> list[str]:
    return [event["data"]["whatsappId"] for event in session.station.events if event["type"] == kind]


async def test_a_message_that_nobody_can_decrypt_is_told_once_also_over_a_kill(rig: Rig) -> None:
    session, friend = rig.session(), new_phone()
    await session.link()
    await rig.world.whatsapp.fault("no_resend", phone=session.phone)
    await rig.world.whatsapp.fault("desync", phone=session.phone, times=2)
    first = await rig.world.whatsapp.send_text(friend, session.phone, "never read")
    told = (await session.event("MESSAGE_UNDECRYPTABLE"))["data"]
    assert (told["whatsappId"], told["reason"], told["phone"]) == (first, "decrypt", friend)
    second = await rig.world.whatsapp.send_text(friend, session.phone, "never read either")
    await until(
        lambda: sum("failed to decrypt" in line for line in session.worker.raw) > 1, "the second has failed as well"
    )
    await session.worker.kill()
    await session.restart()
    await session.event("MESSAGE_UNDECRYPTABLE", whatsappId=second)
    await rig.world.whatsapp.send_text(friend, session.phone, "afterwards")
    await session.event("MESSAGE_RECEIVED", text="afterwards")
    assert _told(session, "MESSAGE_UNDECRYPTABLE") == [first, second]


async def test_a_message_that_its_author_sends_again_in_time_is_only_the_message(rig: Rig) -> None:
    session, friend = rig.session(UNDECRYPTABLE_AFTER_MS="15000"), new_phone()
    await session.link()
    await rig.world.whatsapp.fault("desync", phone=session.phone, times=1)
    await rig.world.whatsapp.send_text(friend, session.phone, "second try")
    await session.event("MESSAGE_RECEIVED", text="second try")
    assert _told(session, "MESSAGE_UNDECRYPTABLE") == []


async def test_what_was_told_as_undecryptable_is_told_as_the_message_when_it_can_be_read(rig: Rig) -> None:
    session, friend = rig.session(UNDECRYPTABLE_AFTER_MS="0"), new_phone()
    await session.link()
    await rig.world.whatsapp.fault("absent", phone=session.phone, times=1)
    message = await rig.world.whatsapp.send_text(friend, session.phone, "the phone has it")
    told = (await session.event("MESSAGE_UNDECRYPTABLE"))["data"]
    assert (told["whatsappId"], told["reason"]) == (message, "unavailable")
    read = (await session.event("MESSAGE_RECEIVED", text="the phone has it"))["data"]
    assert (read["whatsappId"], read["phone"]) == (message, friend)


async def test_one_that_was_sent_to_a_whole_list_is_told_of_who_sent_it(rig: Rig, linked: Session) -> None:
    friend = new_phone()
    await rig.world.whatsapp.fault("absent", phone=linked.phone, times=1, type="view_once")
    message = await rig.world.whatsapp.send_text(friend, linked.phone, "look once", via_list="1723456789")
    told = (await linked.event("MESSAGE_UNDECRYPTABLE", whatsappId=message))["data"]
    assert told["phone"] == friend
    assert "group" not in told


@pytest.mark.parametrize("kind", ["view_once", "view_once_unavailable_fanout"])
async def test_a_view_once_message_is_told_to_be_opened_on_the_phone(rig: Rig, linked: Session, kind: str) -> None:
    friend = new_phone()
    await rig.world.whatsapp.fault("absent", phone=linked.phone, times=1, type=kind)
    message = await rig.world.whatsapp.send_text(friend, linked.phone, "look once")
    told = await linked.event("MESSAGE_UNDECRYPTABLE", whatsappId=message)
    assert told["data"]["reason"] == "view_once"


async def test_undecryptable_messages_do_not_hold_up_the_next(rig: Rig) -> None:
    session, friend, other = rig.session(), new_phone(), new_phone()
    await session.link()
    await rig.world.whatsapp.send_text(other, session.phone, "first words")
    await session.event("MESSAGE_RECEIVED", text="first words")
    await rig.world.whatsapp.fault("no_resend", phone=session.phone)
    await rig.world.whatsapp.fault("desync", phone=session.phone, times=LOST)
    for _ in range(LOST):
        await rig.world.whatsapp.send_text(friend, session.phone, "lost")
    started = time.monotonic()
    await rig.world.whatsapp.send_text(other, session.phone, "next")
    await session.event("MESSAGE_RECEIVED", text="next")
    assert time.monotonic() - started < promised(4)


async def test_a_session_begun_under_the_number_decrypts_what_comes_under_the_lid(rig: Rig) -> None:
    session, friend = rig.session(), new_phone()
    await session.link()
    await rig.world.whatsapp.fault("no_lids", phone=friend)
    await rig.world.whatsapp.send_text(friend, session.phone, "by number", by_lid=False, alone=True)
    await session.event("MESSAGE_RECEIVED", text="by number")
    await rig.world.whatsapp.clear_faults()
    await rig.world.whatsapp.fault("no_resend", phone=session.phone)
    for text in ("by LID", "by LID again"):
        await rig.world.whatsapp.send_text(friend, session.phone, text, by_lid=True)
        await session.event("MESSAGE_RECEIVED", text=text)
    assert not [line for line in session.worker.raw if "failed to decrypt" in line]


@pytest.mark.parametrize(("age_s", "is_sent"), [(60, True), (2 * 86_400, False)])
async def test_an_old_message_is_not_sent_again_to_who_asks_for_it(rig: Rig, age_s: int, is_sent: bool) -> None:
    session, friend = rig.session(), new_phone()
    await session.link()
    message = await session.say(friend, "long ago")
    await rig.server.acked(message)
    await session.worker.terminate()
    with contextlib.closing(sqlite3.connect(session.directory / "auth.db")) as store, store:
        store.execute("UPDATE messages SET stored_at = stored_at - ?", (age_s * 1000,))
    await session.restart()
    asked_for = (session.phone, friend, message["whatsappId"])
    rig.world.whatsapp.ask_again(friend, session.phone, friend, message["whatsappId"])
    if is_sent:
        await until(lambda: asked_for not in rig.world.whatsapp._state.retries, "it is sent again")
        return
    (device,) = rig.world.whatsapp._state.accounts.phone(session.phone).devices.values()
    await until(lambda: not [key for key in device.pending if key.startswith("receipt")], "the request is answered")
    assert asked_for in rig.world.whatsapp._state.retries


@pytest.mark.parametrize("by", ["the worker", "the phone"])
@pytest.mark.parametrize("change", ["edit", "delete"])
async def test_who_asks_again_for_what_was_changed_gets_it_as_it_is_now(rig: Rig, change: str, by: str) -> None:
    session, friend = rig.session(), new_phone()
    await session.link()
    await rig.world.whatsapp.fault("undecryptable", phone=friend)
    message = await session.say(friend, "We open at nien.")
    await rig.server.acked(message)
    asked_for = (session.phone, friend, message["whatsappId"])
    state = rig.world.whatsapp._state
    (device,) = state.accounts.phone(session.phone).devices.values()

    def is_answered() -> bool:
        return not [key for key in device.pending if key.startswith("receipt")]

    await until(lambda: state.asked.get(asked_for) == 3 and is_answered(), "the phone asks no more")
    await session.worker.terminate()
    await rig.world.whatsapp.clear_faults()
    await session.restart()  # which forgets how often it has sent it
    if by == "the phone":
        old = message["whatsappId"]
        how = Edit("edit", old, "We open at nine.") if change == "edit" else Deletion("deletion", old)
        told = await rig.world.whatsapp.send_content(session.phone, friend, how)
        await session.event("MESSAGE_SENT_ELSEWHERE", whatsappId=told)
    else:
        named = {"to": friend, "whatsappId": message["whatsappId"], "fromMe": "yes"}
        command = await rig.server.command(session.id, change, **named, text="We open at nine.")
        assert await rig.server.result(session.id, command) == {"ok": True}
    rig.world.whatsapp.ask_again(friend, session.phone, friend, message["whatsappId"])
    await until(is_answered, "the request is answered")
    if change == "edit":
        await until(lambda: asked_for not in state.retries, "it is sent again")
    shown = [each["text"] for each in rig.world.whatsapp.inbox(friend) if each["id"] == message["whatsappId"]]
    assert shown == (["We open at nine."] if change == "edit" else [])
