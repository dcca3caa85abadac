"""What the real server sends and clients rely on: hashes, kinds of stanzas, routing, previews, compression."""

import hashlib
import zlib
from base64 import b64encode

import pytest
from websockets.exceptions import ConnectionClosed

from tests.simulator.wireclient import WireClient, World, name_in
from wa_orchestrator.simulator.protocol import binary_xml, signal
from wa_orchestrator.simulator.protocol.binary_xml import node
from wa_orchestrator.simulator.protocol.curve25519 import KeyPair
from wa_orchestrator.simulator.protocol.signal import PreKeyBundle, PreKeyMessage, SignalSession
from wa_orchestrator.simulator.whatsapp.accounts import Accounts, lid_of
from wa_orchestrator.simulator.whatsapp.faults import Faults
from wa_orchestrator.simulator.whatsapp.stanzas import trust_tokens
from wa_orchestrator.simulator.whatsapp.state import ServerState

DANA, NOA = "972501111111", "972502222222"
LID, NUMBER = "lid", "s.whatsapp.net"


def test_a_previous_counter_of_four_thousand_millions_is_survived() -> None:
    """whatsmeow's first answer has one."""
    own, other, signed = KeyPair.generate(), KeyPair.generate(), KeyPair.generate()
    bundle = PreKeyBundle(1, other.public, 1, signed.public, b"")
    ours = SignalSession.initiate(own, 1, bundle)
    greeting = PreKeyMessage.read(ours.encrypt(b"hello")[1])
    theirs = SignalSession.respond(other, signed, None, greeting)
    assert theirs.decrypt(greeting.message) == b"hello"
    theirs.previous = 2**32 - 1
    assert ours.decrypt(theirs.encrypt(b"hello yourself")[1]) == b"hello yourself"
    assert len(ours.skipped) <= signal._MAX_SKIP


async def test_a_change_of_devices_is_announced_with_the_hash_of_the_new_list(world: World) -> None:
    dana = await world.online(DANA)
    await world.whatsapp.send_text(NOA, DANA, "we know each other")
    noa = await world.online(NOA)
    notice = await dana.until("notification", type="devices")
    added = notice.require("add")
    names = sorted(f"{NOA}.0:{number}@s.whatsapp.net" for number in (0, noa.device))
    digest = hashlib.sha256("".join(names).encode()).digest()[:6]
    assert added.attr("device_hash") == f"2:{b64encode(digest).decode()}"
    assert added.attr("device_lid_hash").startswith("2:")
    assert added.require("device").attr("lid").endswith(f":{noa.device}@lid")
    assert added.child("key-index-list")
    assert notice.attr("lid").endswith("@lid")


async def test_a_file_comes_as_media_of_its_kind(world: World) -> None:
    client = await world.online(DANA)
    sent = await world.whatsapp.send_media(NOA, DANA, "image", b"a picture", "image/png")
    stanza = await client.until("message", id=sent)
    assert (stanza.attr("type"), stanza.require("enc").attr("mediatype")) == ("media", "image")


async def test_a_login_is_told_where_to_connect_next_and_what_has_waited(world: World) -> None:
    client = await world.link(DANA)
    await client.come_online()
    await client.close()
    await world.whatsapp.send_text(NOA, DANA, "while you were out")
    assert (await client.login()).tag == "success"
    routing = (await client.until("ib")).require("edge_routing").child_bytes("routing_info")
    assert routing
    await client.ask("passive", "set", node("active"))
    preview = (await client.until("ib")).require("offline_preview")
    assert int(preview.attr("message")) >= 1
    assert preview.attr("count") == str(sum(int(preview.attr(kind)) for kind in ("message", "receipt", "notification")))


async def test_a_client_that_begins_with_routing_info_is_understood(world: World) -> None:
    client = await world.link(DANA)
    client.intro = b"ED\x00\x01\x00\x00\x03abc"
    await client.come_online()
    assert world.whatsapp.connections()[0]["routed"] is True


async def test_long_stanzas_are_compressed(world: World) -> None:
    client: WireClient = await world.online(DANA)
    await client.ask("abt", "get", node("props", {"protocol": "1"}))
    assert client.compressed > 0
    packed = binary_xml.compress(binary_xml.encode(node("iq", {"id": "1"}, b"x" * 5000)))
    assert packed[0] == 2
    assert len(zlib.decompress(packed[1:])) > 5000
    assert binary_xml.decode(packed).data == b"x" * 5000


async def test_a_token_of_acquaintance_on_a_message_to_the_own_phone_is_refused(world: World) -> None:
    client = await world.online(DANA)
    attrs = {"id": "3EB0PEER", "to": f"{DANA}@s.whatsapp.net", "category": "peer", "type": "protocol"}
    await client.send(node("message", attrs, [node("enc", {"v": "2", "type": "msg"}, b"x"), node("tctoken", {}, b"t")]))
    assert (await client.until("ack", id="3EB0PEER")).attr("error") == "479"


async def test_a_token_that_a_device_gives_reaches_the_other_persons_devices_each_under_its_name(world: World) -> None:
    dana, noa = await world.online(DANA), await world.online(NOA)
    given = node("token", {"jid": f"{NOA}@s.whatsapp.net", "t": 1, "type": "trusted_contact"})
    await dana.ask("privacy", "set", node("tokens", content=[given]))
    came = await noa.until("notification", type="privacy_token")
    assert came.attr("from") == f"{DANA}@s.whatsapp.net"
    assert came.require("tokens").require("token").attr("jid") == f"{NOA}:1@s.whatsapp.net"


@pytest.mark.parametrize(("migrated", "name", "other"), [(False, NUMBER, LID), (True, LID, NUMBER)])
async def test_a_call_names_the_caller_by_both_names(world: World, migrated: bool, name: str, other: str) -> None:
    world.whatsapp.describe_account(DANA, migrated=migrated)
    dana = await world.online(DANA)
    await world.whatsapp.call(NOA, DANA)
    offer = (await dana.until("call")).require("offer")
    assert offer.attr("call-creator") == name_in(name, NOA)
    assert offer.attr("caller_pn" if migrated else "caller_lid") == name_in(other, NOA)


async def test_blocked_people_are_listed_by_their_lids(world: World) -> None:
    client = await world.online(DANA)
    item = node("item", {"jid": f"{lid_of(NOA)}@lid", "action": "block", "pn_jid": f"{NOA}@s.whatsapp.net"})
    await client.ask("blocklist", "set", item)
    listed = (await client.ask("blocklist", "get")).require("list").children("item")
    assert [one.attr("jid") for one in listed] == [f"{lid_of(NOA)}@lid"]


def test_a_token_is_given_once_a_week_and_valid_for_four() -> None:
    now = [1_800_000_000.0]
    accounts = Accounts(b"secret")
    state = ServerState(accounts, Faults(lambda: now[0]), lambda: now[0], lambda _: None)
    dana, noa = accounts.phone(DANA), accounts.phone(NOA)
    message = node("message", {}, [node("tctoken", {}, trust_tokens.token_of(noa, dana))])
    trust_tokens.hand_over(state, noa, dana)
    assert trust_tokens.is_given(state, dana, noa, message)
    now[0] += 29 * 86_400
    assert not trust_tokens.is_given(state, dana, noa, message)
    trust_tokens.hand_over(state, noa, dana)
    assert trust_tokens.is_given(state, dana, noa, message)


async def test_a_ping_that_is_answered_keeps_the_connection_and_one_that_is_not_breaks_it(world: World) -> None:
    client = await world.online(DANA)
    await world.whatsapp.fault("server_ping", phone=DANA, seconds=60)
    ping = await client.until("iq", xmlns="urn:xmpp:ping")
    assert (ping.attr("type"), ping.attr("from"), ping.attr("id")) == ("get", "@s.whatsapp.net", "")
    await client.send(node("iq", {"type": "result", "to": ping.attr("from")}))
    await client.ask("w:p", "get", node("ping"))
    assert [each["pongs"] for each in world.whatsapp.connections()] == [1]
    await world.whatsapp.fault("server_ping", phone=DANA, seconds=0.01)
    with pytest.raises(ConnectionClosed):
        await client.until("nothing")


@pytest.mark.parametrize("error", [None, "500"])
async def test_a_status_that_a_device_refuses_holds_back_everything_behind_it(world: World, error: str | None) -> None:
    client = await world.online(DANA)
    await world.whatsapp.fault("status", phone=DANA, form="message")
    posted = await client.until("message", **{"from": "status@broadcast"})
    refusal = {"class": "message", "id": posted.attr("id"), "to": "status@broadcast", "error": error}
    await client.send(node("ack", refusal))
    await client.ask("w:p", "get", node("ping"))
    await client.close()
    await world.whatsapp.send_text(NOA, DANA, "while you were out")
    await client.login()
    await client.send(node("iq", {"id": "on", "xmlns": "passive", "type": "set"}, [node("active")]))
    senders = []
    while (stanza := await client.receive()).child("offline") is None:
        senders += [stanza.attr("from")] if stanza.tag == "message" else []
    assert (f"{NOA}@s.whatsapp.net" in senders) is (error is None)
    assert ("status@broadcast" in senders) is (error is not None)
