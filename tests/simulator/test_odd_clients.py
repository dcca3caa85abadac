"""Clients that do something in another way than ours, as the protocol allows: they get an answer, and what is theirs."""

import asyncio
import secrets

import pytest
from websockets.exceptions import ConnectionClosed

from tests.simulator.wireclient import WireClient, World, name_in
from wa_orchestrator.simulator.protocol import protobuf, signal
from wa_orchestrator.simulator.protocol.binary_xml import Node, node

DANA, NOA, LEA = "972501111111", "972502222222", "972503333333"


def _error(answer: Node) -> tuple[str, str, str]:
    error = answer.require("error")
    return answer.attr("type"), error.attr("code"), error.attr("text")


@pytest.mark.parametrize(("xmlns", "kind"), [("unheard", "get"), ("unheard", "set"), ("usync", "set"), ("", "get")])
async def test_a_query_that_the_server_does_not_know_is_answered_with_an_error(
    world: World, xmlns: str, kind: str
) -> None:
    client = await world.online(DANA)
    assert _error(await client.ask(xmlns, kind, node("x"))) == ("error", "501", "feature-not-implemented")


@pytest.mark.parametrize(
    ("xmlns", "kind", "content"),
    [
        ("usync", "get", []),
        ("encrypt", "get", []),
        ("encrypt", "set", [node("list")]),
        ("w:mex", "get", []),
        ("md", "set", [node("x")]),
        ("w:sync:app:state", "set", [node("sync", {}, [node("collection", {"name": "regular", "version": "x"})])]),
        ("md", "set", [node("passkey_prologue", {}, [node("webauthn_assertion", content=b"[]")])]),
        ("w:g2", "set", [node("x")]),
    ],
    ids=["usync", "keys", "upload", "mex", "md", "app state", "passkey", "group"],
)
async def test_a_malformed_query_is_refused_and_the_connection_stays(
    world: World, xmlns: str, kind: str, content: list[Node]
) -> None:
    client = await world.online(DANA)
    answer = await client.ask(xmlns, kind, *content)
    assert answer.attr("type") == "error"
    assert answer.require("error").attr("code") in ("400", "404")
    await client.ask("w:p", "get", node("ping"))


@pytest.mark.parametrize("xmlns", ["w:p", "w:stats", "urn:xmpp:whatsapp:dirty", "urn:xmpp:whatsapp:push"])
async def test_what_a_device_only_reports_is_confirmed(world: World, xmlns: str) -> None:
    client = await world.online(DANA)
    answer = await client.ask(xmlns, "set", node("x"))
    assert (answer.attr("type"), answer.content) == ("result", None)


async def test_a_keep_alive_without_content_is_answered(world: World) -> None:
    client = await world.online(DANA)
    assert (await client.ask("w:p", "get")).attr("type") == "result"


async def test_a_client_that_is_not_passive_gets_what_has_waited_unasked(world: World) -> None:
    client = await world.online(DANA)
    await client.close()
    sent = await world.whatsapp.send_text(NOA, DANA, "while you were out")
    assert (await client.login(passive=False)).tag == "success"
    assert await client.until("message", id=sent)


async def test_a_receipt_for_several_messages_settles_all_of_them(world: World) -> None:
    client = await world.online(DANA)
    (device,) = world.whatsapp._state.accounts.phone(DANA).devices.values()
    sent = [await world.whatsapp.send_text(NOA, DANA, text) for text in ("one", "two", "three")]
    items = [node("item", {"id": message_id}) for message_id in sent[1:]]
    await client.send(node("receipt", {"id": sent[0], "to": f"{NOA}@s.whatsapp.net"}, [node("list", {}, items)]))
    await client.until("ack", **{"class": "receipt", "id": sent[0]})
    assert not {f"message {message_id}" for message_id in sent} & device.pending.keys()


async def test_a_notification_is_settled_by_its_id_alone(world: World) -> None:
    client = await world.online(DANA)
    (device,) = world.whatsapp._state.accounts.phone(DANA).devices.values()
    await world.whatsapp.create_group(NOA, "the office", [DANA])
    notice = await client.until("notification", type="w:gp2")
    await client.send(node("ack", {"id": notice.attr("id"), "class": "notification", "to": notice.attr("from")}))
    await client.ask("w:p", "get", node("ping"))
    assert not [key for key in device.pending if notice.attr("id") in key]


async def test_a_message_for_the_phone_alone_needs_no_list_of_devices(world: World) -> None:
    client = await world.online(DANA)
    kind, sealed = (await client.session(NOA)).encrypt(signal.pad(protobuf.encode({1: "only you"}), 3))
    attrs = {"id": "3EB0BARE", "to": f"{NOA}@s.whatsapp.net", "type": "text"}
    await client.send(node("message", attrs, [node("enc", {"v": "2", "type": kind}, sealed)]))
    assert not (await client.until("ack", id="3EB0BARE")).attr("error")
    assert [entry["text"] for entry in world.whatsapp.inbox(NOA)] == ["only you"]


@pytest.mark.parametrize("count", [1, 30, 812])
async def test_a_device_may_have_any_number_of_pre_keys(world: World, count: int) -> None:
    client = await world.link(DANA)
    pair = client.prekeys[1]
    client.prekeys = dict.fromkeys(range(1, count + 1), pair)
    await client.come_online()
    said = await client.ask("encrypt", "get", node("count"))
    assert int(said.require("count").attr("value")) >= count - 2  # the phone has used one or two to greet it


async def test_a_change_of_settings_that_was_made_from_an_old_state_is_refused_with_what_is_newer(world: World) -> None:
    one, other = await world.online(DANA), await world.online(DANA)

    async def change(client: WireClient, version: int) -> Node:
        patch = node("patch", content=protobuf.encode({4: secrets.token_bytes(32)}))
        wanted = node("collection", {"name": "regular", "version": version}, [patch])
        answer = await client.ask("w:sync:app:state", "set", node("sync", {}, [wanted]))
        return answer.require("sync").require("collection")

    assert (await change(one, 0)).attr("version") == "1"
    refused = await change(other, 0)
    assert (refused.attr("type"), refused.require("error").attr("code")) == ("error", "409")
    assert len(refused.require("patches").children("patch")) == 1
    assert (await change(other, 1)).attr("version") == "2"


async def test_whoever_asks_for_a_persons_presence_is_told_it_and_its_changes(world: World) -> None:
    dana, noa = await world.online(DANA), await world.online(NOA)
    name = name_in("s.whatsapp.net", NOA)
    await dana.send(node("presence", {"type": "subscribe", "to": name}))
    assert (await dana.until("presence", **{"from": name})).attr("type") == "unavailable"
    await noa.send(node("presence", {"type": "available", "name": "Noa"}))
    assert not (await dana.until("presence", **{"from": name})).attr("type")
    await noa.close()
    left = await dana.until("presence", **{"from": name})
    assert left.attr("type") == "unavailable"
    assert int(left.attr("last")) > 0


async def test_typing_in_a_group_is_shown_to_its_other_members(world: World) -> None:
    dana, noa, lea = await asyncio.gather(world.online(DANA), world.online(NOA), world.online(LEA))
    group = await world.whatsapp.create_group(DANA, "the office", [NOA, LEA])
    await noa.send(node("chatstate", {"to": group}, [node("composing")]))
    for client in (dana, lea):
        shown = await client.until("chatstate", **{"from": group})
        assert (shown.attr("participant"), shown.children()[0].tag) == (name_in("s.whatsapp.net", NOA), "composing")


@pytest.mark.parametrize(("number", "value"), [(bytes(3), bytes(31)), (bytes(4), bytes(32))], ids=["value", "number"])
async def test_a_malformed_pre_key_is_refused_with_all_that_came_with_it(
    world: World, number: bytes, value: bytes
) -> None:
    client = await world.online(DANA)
    before = await client.ask("encrypt", "get", node("count"))
    upload = client.key_upload()
    malformed = node("key", content=[node("id", content=number), node("value", content=value)])
    upload[3].content = [*upload[3].children(), malformed]
    assert _error(await client.ask("encrypt", "set", *upload))[1] == "400"
    after = await client.ask("encrypt", "get", node("count"))
    assert after.require("count").attrs == before.require("count").attrs


async def test_a_phone_sends_nothing_again_under_keys_that_the_device_has_not_signed(world: World) -> None:
    client = await world.online(DANA)
    sent = await world.whatsapp.send_text(NOA, DANA, "for nobody else")
    stanza = await client.until("message", id=sent)
    _, _, identity, prekeys, skey = client.key_upload()
    skey.content = [*skey.children()[:2], node("signature", content=bytes(64))]
    keys = node("keys", {}, [identity, *prekeys.children()[:1], skey])
    request = [node("retry", {"count": 1, "id": sent, "v": "1"}), keys]
    await client.send(node("receipt", {"id": sent, "to": stanza.attr("from"), "type": "retry"}, request))
    with pytest.raises(ConnectionClosed):
        await client.until("message", id=sent)
