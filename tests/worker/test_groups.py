"""Groups over the real wire: made empty, joined by link, changed by their admin, left."""

from typing import Any

import pytest

from tests.waiting import until
from tests.worker.harness import Rig, Session, new_phone
from tests.worker.test_acts import act

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def made(rig: Rig, session: Session, subject: str = "Course 7") -> str:
    group: dict[str, Any] = (await act(rig, session, "create_group", text=subject))["group"]
    assert (group["subject"], group["size"], group["admin"]) == (subject, 1, True)
    return str(group["id"])


async def test_a_group_begins_with_its_maker_alone_and_people_come_by_the_link(rig: Rig, linked: Session) -> None:
    world, friend = rig.world.whatsapp, new_phone()
    group = await made(rig, linked)
    assert world.group_members(group) == [linked.phone]
    link = (await act(rig, linked, "group_link", to=group))["link"]
    assert link.startswith("https://chat.whatsapp.com/")
    assert await world.join_group(friend, link) == "joined"
    described = (await act(rig, linked, "describe_group", to=group))["group"]
    assert [each["phone"] for each in described["members"]] == [linked.phone, friend]
    assert [each.get("admin", False) for each in described["members"]] == [True, False]
    assert all(each["lid"].isdigit() for each in described["members"])
    message = await rig.server.send(linked.id, group, kind="text", text="Welcome")
    await rig.server.acked(message)
    assert "Welcome" in [entry["text"] for entry in world.inbox(friend)]


async def test_a_new_link_ends_the_old_one(rig: Rig, linked: Session) -> None:
    group = await made(rig, linked)
    old = (await act(rig, linked, "group_link", to=group))["link"]
    assert (await act(rig, linked, "group_link", to=group))["link"] == old
    new = (await act(rig, linked, "renew_group_link", to=group))["link"]
    assert new != old
    with pytest.raises(Exception, match="leads to no group"):
        await rig.world.whatsapp.join_group(new_phone(), old)
    assert await rig.world.whatsapp.join_group(new_phone(), new) == "joined"


async def test_requests_to_join_are_listed_and_answered(rig: Rig, linked: Session) -> None:
    world, welcome, unwelcome = rig.world.whatsapp, new_phone(), new_phone()
    group = await made(rig, linked)
    assert await act(rig, linked, "approve_joins", to=group, text="on") == {"ok": True}
    link = (await act(rig, linked, "group_link", to=group))["link"]
    for person in (welcome, unwelcome):
        assert await world.join_group(person, link) == "asked"
    requests = (await act(rig, linked, "join_requests", to=group))["requests"]
    assert [each["phone"] for each in requests] == [welcome, unwelcome]
    assert all(each["at"] > 0 for each in requests)
    assert (await act(rig, linked, "describe_group", to=group))["group"]["joinApproval"]
    assert await act(rig, linked, "answer_join_request", to=group, phone=welcome, text="approve") == {"ok": True}
    lid = requests[1]["lid"]
    assert await act(rig, linked, "answer_join_request", to=group, lid=lid, text="reject") == {"ok": True}
    assert world.group_members(group) == [linked.phone, welcome]
    assert (await act(rig, linked, "join_requests", to=group))["requests"] == []
    gone = await act(rig, linked, "answer_join_request", to=group, phone=unwelcome, text="approve")
    assert gone == {"ok": False, "code": "NO_SUCH_REQUEST"}


async def test_a_group_is_renamed_a_member_removed_and_the_group_left(rig: Rig, linked: Session) -> None:
    world, friend = rig.world.whatsapp, new_phone()
    group = await made(rig, linked, "Draft")
    await world.join_group(friend, (await act(rig, linked, "group_link", to=group))["link"])
    assert await act(rig, linked, "rename_group", to=group, text="קורס 7") == {"ok": True}
    listed = {each["id"]: each for each in (await act(rig, linked, "list_groups"))["groups"]}
    assert (listed[group]["subject"], listed[group]["size"]) == ("קורס 7", 2)
    assert await act(rig, linked, "remove_member", to=group, phone=friend) == {"ok": True}
    assert world.group_members(group) == [linked.phone]
    nobody = await act(rig, linked, "remove_member", to=group, phone=friend)
    assert nobody == {"ok": False, "code": "NO_SUCH_MEMBER"}
    assert await act(rig, linked, "leave_group", to=group) == {"ok": True}
    await until(lambda: world.group_members(group) == [], "nobody is left")


async def test_what_only_an_admin_may_and_what_does_not_exist_is_told_apart(rig: Rig, linked: Session) -> None:
    theirs = await rig.world.whatsapp.create_group(new_phone(), "Friends", [linked.phone])
    foreign = await rig.world.whatsapp.create_group(new_phone(), "Strangers", [new_phone()])
    for kind, group, code in (
        ("rename_group", theirs, "GROUP_FORBIDDEN"),
        ("group_link", theirs, "GROUP_FORBIDDEN"),
        ("describe_group", foreign, "GROUP_FORBIDDEN"),
        ("describe_group", "120363000000000000@g.us", "UNKNOWN_GROUP"),
        ("describe_group", linked.phone, "INVALID_ACT"),
    ):
        answer = await act(rig, linked, kind, to=group, text="Mine")
        assert answer == {"ok": False, "code": code}, kind
    assert not (await act(rig, linked, "describe_group", to=theirs))["group"]["admin"]


async def test_a_group_that_names_its_members_otherwise_is_read_with_the_keys_from_before(rig: Rig) -> None:
    world, session, friend = rig.world.whatsapp, rig.session(), new_phone()
    await session.link()
    group = await world.create_group(friend, "Course 7", [session.phone], mode="pn")
    await world.send_text(friend, group, "by number")
    await session.event("MESSAGE_RECEIVED", text="by number")
    await world.fault("no_resend", phone=session.phone)
    for mode, text in (("lid", "by LID"), ("lid", "by LID again"), ("pn", "by number again")):
        world.move_group(group, mode)
        await world.send_text(friend, group, text)
        await session.event("MESSAGE_RECEIVED", text=text)


async def test_receipts_of_a_whole_group_in_one_stanza_prove_that_a_message_arrived(rig: Rig, linked: Session) -> None:
    friend, other = new_phone(), new_phone()
    group = await rig.world.whatsapp.create_group(friend, "Three", [linked.phone, other])
    await rig.world.whatsapp.fault("grouped_receipts", phone=linked.phone)
    message = await rig.server.send(linked.id, group, kind="text", text="Where is my ack?")
    await rig.server.acked(message)
    await linked.event("MESSAGE_STATUS", whatsappId=message["whatsappId"], status="delivered")
    assert "Where is my ack?" in [entry["text"] for entry in rig.world.whatsapp.inbox(other)]


async def test_a_group_message_is_delivered_and_read_once_the_first_member_has_and_reads_it(
    rig: Rig, linked: Session
) -> None:
    friend, other = new_phone(), new_phone()
    group = await rig.world.whatsapp.create_group(friend, "Three", [linked.phone, other])
    message = await rig.server.send(linked.id, group, kind="text", text="Who is there?")
    await rig.server.acked(message)
    await linked.event("MESSAGE_STATUS", whatsappId=message["whatsappId"], status="delivered")
    for person in (friend, other):
        await rig.world.whatsapp.read(person)
    await linked.event("MESSAGE_STATUS", whatsappId=message["whatsappId"], status="read")
    await rig.server.acked(await linked.say(friend, "and in private"))  # what was on its way is told by then
    told = [event["data"] for event in linked.station.events if event["type"] == "MESSAGE_STATUS"]
    assert [each["status"] for each in told if each["whatsappId"] == message["whatsappId"]] == ["delivered", "read"]


async def test_a_message_tells_the_name_of_its_group_also_after_it_was_renamed(rig: Rig, linked: Session) -> None:
    world, friend = rig.world.whatsapp, new_phone()
    group = await made(rig, linked, "Draft")
    await world.join_group(friend, (await act(rig, linked, "group_link", to=group))["link"])
    first = await world.send_text(friend, group, "What is this?")
    assert (await linked.event("MESSAGE_RECEIVED", whatsappId=first))["data"]["groupName"] == "Draft"
    assert await act(rig, linked, "rename_group", to=group, text="קורס 7") == {"ok": True}
    second = await world.send_text(friend, group, "Now I see")
    assert (await linked.event("MESSAGE_RECEIVED", whatsappId=second))["data"]["groupName"] == "קורס 7"
    to_us = await world.send_text(friend, linked.phone, "And in private")
    assert "groupName" not in (await linked.event("MESSAGE_RECEIVED", whatsappId=to_us))["data"]
