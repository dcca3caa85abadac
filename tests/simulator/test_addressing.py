"""Names on the wire: an account's chats go by LIDs or by numbers, and every stanza of it follows."""

import base64
import hashlib

import pytest

from tests.simulator.wireclient import World, name_in
from wa_orchestrator.simulator.protocol import protobuf
from wa_orchestrator.simulator.protocol.binary_xml import Node, node

DANA, NOA, ADA = "972501111111", "972502222222", "972503333333"
LID, NUMBER = "lid", "s.whatsapp.net"


@pytest.mark.parametrize(
    ("migrated", "chat", "device", "error"),
    [
        (False, NUMBER, NUMBER, ""),
        (False, LID, LID, "400"),
        (True, LID, LID, ""),
        (True, NUMBER, NUMBER, "463"),
        (False, NUMBER, LID, "400"),
        (True, LID, NUMBER, "400"),
    ],
)
async def test_a_message_with_names_of_the_wrong_kind_is_refused(
    world: World, migrated: bool, chat: str, device: str, error: str
) -> None:
    world.whatsapp.describe_account(DANA, migrated=migrated)
    client = await world.online(DANA)
    sent = await client.say(NOA, "hello", chat=chat, device=device)
    assert (await client.until("ack", id=sent)).attr("error") == error
    assert [entry["text"] for entry in world.whatsapp.inbox(NOA)] == ([] if error else ["hello"])
    assert [entry["code"] for entry in world.whatsapp.refusals()] == ([int(error)] if error else [])


@pytest.mark.parametrize("migrated", [False, True])
async def test_pairing_and_properties_tell_whether_the_account_has_moved(world: World, migrated: bool) -> None:
    world.whatsapp.describe_account(DANA, migrated=migrated)
    client = await world.link(DANA)
    assert client.pair_success is not None
    assert protobuf.decode(client.pair_success.child_bytes("client-props")).number(1) == migrated
    await client.come_online()
    answer = await _properties(client)
    assert _property(answer, 9435) == str(int(migrated))
    assert len(answer.children("prop")) > 100
    unchanged = await _properties(client, hash=answer.attr("hash"))
    assert unchanged.attr("delta_update") == "true"
    assert unchanged.children("prop") == []


async def test_an_account_that_moves_while_linked_changes_its_properties_and_tells_its_devices(world: World) -> None:
    client = await world.online(DANA)
    await world.whatsapp.send_text(NOA, DANA, "we know each other")
    before = await _properties(client)
    await world.whatsapp.migrate(DANA)
    while True:
        message = client.decrypt(await client.until("message", category="peer"))
        if 12 in message and message.message(12).number(2) == 22:
            break
    told = protobuf.decode(message.message(12).message(23).raw(1))
    pairs = {(pair.number(1), pair.number(3)) for pair in map(protobuf.decode, told.all(1))}
    assert (int(NOA), int(name_in(LID, NOA).partition("@")[0])) in pairs
    change = await _properties(client, hash=before.attr("hash"))
    assert {prop.attr("config_code") for prop in change.children("prop")} == {"9435", "14303"}


@pytest.mark.parametrize(("migrated", "own", "other"), [(False, NUMBER, LID), (True, LID, NUMBER)])
async def test_a_message_names_its_author_in_the_receivers_way_and_the_own_copy_the_other_person(
    world: World, migrated: bool, own: str, other: str
) -> None:
    world.whatsapp.describe_account(DANA, migrated=migrated)
    client = await world.online(DANA)
    came = await client.until("message", id=await world.whatsapp.send_text(NOA, DANA, "hello"))
    assert came.attr("from") == name_in(own, NOA)
    assert came.attr("sender_pn" if migrated else "sender_lid") == name_in(other, NOA)
    copy = await client.until("message", id=await world.whatsapp.send_text(DANA, NOA, "typed on the phone"))
    assert (copy.attr("from"), copy.attr("recipient")) == (name_in(own, DANA), name_in(own, NOA))
    assert copy.attr("peer_recipient_pn" if migrated else "peer_recipient_lid") == name_in(other, NOA)
    assert not {"sender_pn", "sender_lid"} & set(copy.attrs)


async def test_a_person_with_a_username_is_found_by_it_and_known_by_the_lid_alone(world: World) -> None:
    world.whatsapp.describe_account(DANA, migrated=True)
    world.whatsapp.describe_account(NOA, username="noa.example", hides_number=True)
    client = await world.online(DANA)
    found = await _usync(client, node("contact"), node("user", content=[node("contact", {"username": "noa.example"})]))
    assert found.attr("jid") == name_in(LID, NOA)
    came = await client.until("message", id=await world.whatsapp.send_text(NOA, DANA, "guess who"))
    assert came.attr("from") == name_in(LID, NOA)
    assert NOA not in str(came.attrs)


async def test_whose_a_username_is_tells_the_key_that_its_owner_set(world: World) -> None:
    world.whatsapp.describe_account(NOA, username="noa.example", username_key="0042")
    client = await world.online(DANA)
    for key, jid in (("", ""), ("1234", ""), ("0042", name_in(LID, NOA))):
        asked = node("contact", {"username": "Noa.Example", **({"pin": key} if key else {})})
        found = await _usync(client, node("contact"), node("user", content=[asked]))
        assert (found.attr("jid"), found.require("contact").attr("type")) == (jid, "in")


async def test_a_copy_of_what_was_written_to_a_hidden_number_names_the_username(world: World) -> None:
    world.whatsapp.describe_account(DANA, migrated=True)
    world.whatsapp.describe_account(NOA, username="noa.example", hides_number=True)
    client = await world.online(DANA)
    copy = await client.until("message", id=await world.whatsapp.send_text(DANA, NOA, "typed on the phone"))
    assert (copy.attr("recipient"), copy.attr("peer_recipient_username")) == (name_in(LID, NOA), "noa.example")
    assert NOA not in str(copy.attrs)


async def test_an_account_that_has_moved_learns_no_devices_by_a_number(world: World) -> None:
    world.whatsapp.describe_account(DANA, migrated=True)
    client, _ = await world.online(DANA), await world.online(NOA)
    for name, expected in ((name_in(NUMBER, NOA), []), (name_in(LID, NOA), ["0", "1"])):
        user = await _usync(client, node("devices", {"version": 2}), node("user", {"jid": name}))
        listed = user.require("devices").require("device-list").children("device")
        assert [device.attr("id") for device in listed] == expected


@pytest.mark.parametrize("asked", [f"+{NOA}", f"+{NOA}@c.us"])
async def test_a_number_is_looked_up_as_any_client_writes_it(world: World, asked: str) -> None:
    client = await world.online(DANA)
    contact = node("user", content=[node("contact", content=asked)])
    user = await _usync(client, node("contact"), contact)
    assert (user.attr("jid"), user.require("contact").attr("type")) == (f"{NOA}@s.whatsapp.net", "in")
    assert user.require("contact").data.decode() == asked
    user = await _usync(client, node("contact", {"addressing_mode": "lid"}), contact)
    assert (user.attr("jid"), user.attr("pn_jid")) == (name_in(LID, NOA), name_in(NUMBER, NOA))


@pytest.mark.parametrize(("mode", "own", "other"), [("lid", LID, NUMBER), ("pn", NUMBER, LID)])
async def test_a_group_names_its_members_in_its_own_way_and_refuses_the_other(
    world: World, mode: str, own: str, other: str
) -> None:
    client = await world.online(DANA)
    group = await world.whatsapp.create_group(NOA, "Family", [DANA], mode)
    notice = await client.until("notification", type="w:gp2")
    assert notice.attr("participant") == name_in(own, NOA)
    described = notice.require("create").require("group")
    assert described.attr("addressing_mode") == mode
    member = described.children("participant")[0]
    assert member.attr("jid") == name_in(own, NOA)
    assert member.attr("phone_number" if mode == "lid" else "lid") == name_in(other, NOA)
    came = await client.until("message", id=await world.whatsapp.send_text(NOA, group, "all together"))
    assert (came.attr("participant"), came.attr("addressing_mode")) == (name_in(own, NOA), mode)
    for server, error in ((other, "421"), (own, "")):
        enc = node("enc", {"v": "2", "type": "msg"}, b"not decrypted here")
        copies = [node("to", {"jid": name_in(server, NOA)}, [enc])]
        attrs = {"id": f"3EB0{server[:1].upper()}", "to": group, "type": "text"}
        await client.send(node("message", attrs, [node("participants", content=copies)]))
        assert (await client.until("ack", id=attrs["id"])).attr("error") == error


async def test_an_ack_carries_the_hash_of_the_devices_there_are_whoever_was_written_to(world: World) -> None:
    client = await world.online(DANA)
    phone = await client.say(NOA, "to her phone alone")
    named = [f"{NOA}.0:0@s.whatsapp.net", f"{DANA}.0:0@s.whatsapp.net", f"{DANA}.0:1@s.whatsapp.net"]
    digest = hashlib.sha256("".join(sorted(named)).encode()).digest()[:6]
    assert (await client.until("ack", id=phone)).attr("phash") == f"2:{base64.b64encode(digest).decode()}"


async def _usync(client: object, protocol: Node, user: Node) -> Node:
    attrs = {"context": "message", "mode": "query", "sid": "s1", "last": "true", "index": "0"}
    query = [Node("query", {}, [protocol]), Node("list", {}, [user])]
    answer = await client.ask("usync", "get", Node("usync", attrs, query))  # type: ignore[attr-defined]
    found: Node = answer.require("usync").require("list").require("user")
    return found


async def _properties(client: object, **attrs: str) -> Node:
    answer = await client.ask("abt", "get", node("props", {"protocol": "1", **attrs}))  # type: ignore[attr-defined]
    found: Node = answer.require("props")
    return found


def _property(answer: Node, code: int) -> str:
    return next(prop.attr("config_value") for prop in answer.children("prop") if prop.attr("config_code") == str(code))
