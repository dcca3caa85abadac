"""The simulated WhatsApp as a whole, seen from the wire by a client that can misbehave."""

import asyncio
import base64
import contextlib
import copy
import random
import secrets
from collections.abc import AsyncIterator

import pytest
import structlog
from websockets.exceptions import ConnectionClosed

from tests.simulator.wireclient import WAIT_S, WireClient, World
from tests.waiting import until
from wa_orchestrator.simulator import noise, wire
from wa_orchestrator.simulator.errors import SimulatorError
from wa_orchestrator.simulator.wire import Node, node

DANA, NOA, UNKNOWN = "972501111111", "972502222222", "972503333333"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World() as running:
        yield running


async def test_a_text_is_decrypted_acknowledged_and_confirmed(world: World) -> None:
    client = await world.online(DANA)
    message_id = await client.say(NOA, "hello")
    assert (await client.until("ack")).attr("id") == message_id
    assert (await client.until("receipt")).attrs["from"] == f"{NOA}@s.whatsapp.net"
    (arrival,) = world.whatsapp.arrivals()
    assert (arrival["from"], arrival["to"], arrival["text"], arrival["repeat"]) == (DANA, NOA, "hello", False)
    assert [entry["text"] for entry in world.whatsapp.inbox(NOA)] == ["hello"]


async def test_a_person_answers_in_the_same_session_and_reads(world: World) -> None:
    client = await world.online(DANA)
    message_id = await client.say(NOA, "hello")
    await client.until("receipt", id=message_id)
    await world.whatsapp.say(NOA, DANA, "hello yourself")
    stanza = await client.until("message", notify="Person 2222")
    client.sessions[stanza.attr("from")] = client.sessions[NOA]
    assert client.decrypt(stanza).text(1) == "hello yourself"
    assert await world.whatsapp.read(NOA) == 1
    assert (await client.until("receipt", id=message_id)).attr("type") == "read"


async def test_the_same_id_again_is_a_repeat_and_shown_once(world: World) -> None:
    client = await world.online(DANA)
    for _ in range(2):
        await client.say(NOA, "once", "3EB0AA")
        await client.until("ack", id="3EB0AA")
    assert [arrival["repeat"] for arrival in world.whatsapp.arrivals()] == [False, True]
    (entry,) = world.whatsapp.inbox(NOA)
    assert (entry["shown"], entry["copies"]) == (1, 2)


async def test_what_was_said_to_a_device_that_is_away_arrives_when_it_is_back(world: World) -> None:
    client = await world.link(DANA)
    await client.come_online()
    await client.close()
    for text in ("one", "two"):
        await world.whatsapp.say(NOA, DANA, text)
    await client.come_online()
    assert [await client.next_text() for _ in range(2)] == ["one", "two"]
    await until(lambda: not _pending(world, DANA), "everything is delivered")
    await client.close()
    await client.come_online()
    assert (await client.until("ib")).need("offline").attr("count") == "0"


async def test_a_refused_message_did_not_arrive(world: World) -> None:
    client = await world.online(DANA)
    await world.whatsapp.fault("ack_error", phone=DANA, code=479, times=1)
    message_id = await client.say(NOA, "no")
    assert (await client.until("ack", id=message_id)).attr("error") == "479"
    assert world.whatsapp.arrivals() == []
    assert world.whatsapp.refusals()[0]["code"] == 479
    await client.say(NOA, "yes", message_id)
    assert "error" not in (await client.until("ack", id=message_id)).attrs


async def test_the_reach_out_lock_stops_new_contacts_only(world: World) -> None:
    client = await world.online(DANA)
    await client.say(NOA, "before", "3EB001")
    await client.until("ack", id="3EB001")
    await world.whatsapp.fault("reachout_lock", phone=DANA, seconds=60)
    await client.say(NOA, "known", "3EB002")
    assert "error" not in (await client.until("ack", id="3EB002")).attrs
    await client.say(UNKNOWN, "cold", "3EB003")
    assert (await client.until("ack", id="3EB003")).attr("error") == "463"


async def test_no_receipts_means_an_ack_and_nothing_more(world: World) -> None:
    client = await world.online(DANA)
    await world.whatsapp.fault("no_receipts", phone=DANA)
    await client.say(NOA, "quiet", "3EB001")
    await client.until("ack", id="3EB001")
    await client.ask("w:p", "get", node("ping"))
    assert not _pending(world, DANA, "receipt")


async def test_the_newest_connection_wins(world: World) -> None:
    older = await world.online(DANA)
    newer = WireClient(world)
    newer.noise, newer.phone, newer.device = older.noise, older.phone, older.device
    assert (await newer.login()).tag == "success"
    ending = await older.until("stream:error")
    assert ending.need("conflict").attr("type") == "replaced"
    await older.say_blindly(NOA)
    await newer.ask("w:p", "get", node("ping"))
    assert world.whatsapp.arrivals() == []


@pytest.mark.parametrize(
    ("kind", "code"),
    [("ban", "403"), ("temporary_ban", "402"), ("outdated", "405"), ("unavailable", "503"), ("refuse_login", "401")],
)
async def test_a_login_is_refused_with_the_code_of_the_fault(world: World, kind: str, code: str) -> None:
    client = await world.link(DANA)
    await world.whatsapp.fault(kind, phone=DANA, seconds=60)
    answer = await client.login()
    assert (answer.tag, answer.attr("reason")) == ("failure", code)
    await world.whatsapp.clear_faults()
    assert (await client.login()).tag == "success"


async def test_a_login_with_another_key_is_refused(world: World) -> None:
    client = await world.link(DANA)
    client.noise = WireClient(world).noise
    assert (await client.login()).attr("reason") == "401"


async def test_a_device_that_the_phone_removed_is_told_and_cannot_come_back(world: World) -> None:
    client = await world.online(DANA)
    await world.whatsapp.unlink(DANA)
    ending = await client.until("stream:error")
    assert (ending.attr("code"), ending.need("conflict").attr("type")) == ("401", "device_removed")
    assert (await client.login()).attr("reason") == "401"
    with pytest.raises(SimulatorError):
        await world.whatsapp.unlink(DANA)


async def test_a_silent_server_neither_answers_nor_hears(world: World) -> None:
    client = await world.online(DANA)
    await world.whatsapp.fault("silence", phone=DANA)
    await client.say_blindly(NOA)
    other = await world.online(NOA)
    await other.ask("w:p", "get", node("ping"))
    await world.whatsapp.clear_faults()
    await client.ask("w:p", "get", node("ping"))
    assert world.whatsapp.arrivals() == []


async def test_a_dropped_connection_breaks_without_a_word(world: World) -> None:
    client = await world.online(DANA)
    await world.whatsapp.fault("drop", phone=DANA)
    with pytest.raises(ConnectionClosed):
        await client.until("stream:error")
    await until(lambda: world.whatsapp.connections() == [], "nobody is connected")


async def test_a_qr_that_nobody_shows_any_more_is_refused(world: World) -> None:
    client = WireClient(world)
    qr = await client.register()
    await client.close()
    await until(lambda: world.whatsapp.connections() == [], "nobody is connected")
    with pytest.raises(SimulatorError) as refused:
        await world.whatsapp.scan(DANA, qr)
    assert refused.value.code == "QR_EXPIRED"
    for wrong in ("", "nonsense", qr.replace(",", ";"), "https://example.com/#a,b,c,d"):
        with pytest.raises(SimulatorError) as refused:
            await world.whatsapp.scan(DANA, wrong)
        assert refused.value.code == "BAD_QR"


async def test_a_fifth_device_is_refused(world: World) -> None:
    for _ in range(4):
        await world.link(DANA)
    with pytest.raises(SimulatorError) as refused:
        await world.whatsapp.scan(DANA, await WireClient(world).register())
    assert refused.value.code == "TOO_MANY_DEVICES"


async def test_a_retired_qr_is_refused_until_the_device_acknowledged(world: World) -> None:
    client = WireClient(world)
    qr = await client.register()
    await world.whatsapp.fault("companion_reg_refresh", qr=qr)
    notice = await client.until("notification")
    with pytest.raises(SimulatorError) as refused:
        await world.whatsapp.scan(DANA, qr)
    assert refused.value.code == "QR_RETIRED"
    await client.send(node("ack", {"id": notice.attr("id"), "class": "notification", "to": "@s.whatsapp.net"}))
    old, client.adv = client.adv, secrets.token_bytes(32)
    await client.ask("w:p", "get", node("ping"))
    with pytest.raises(SimulatorError):
        await world.whatsapp.scan(DANA, qr)
    scan = asyncio.create_task(world.whatsapp.scan(DANA, _with_adv(qr, old, client.adv)))
    assert (await client.complete()).attr("code") == "515"
    await scan


def _with_adv(qr: str, old: bytes, new: bytes) -> str:
    return qr.replace(base64.b64encode(old).decode(), base64.b64encode(new).decode())


async def test_what_the_pool_of_proxies_says_is_booked() -> None:
    async with World(proxy_of=lambda port: f"proxy-of-{port > 0}") as world:
        client = await world.online(DANA)
        await client.say(NOA, "through it", "3EB001")
        await client.until("ack", id="3EB001")
        assert world.whatsapp.arrivals()[0]["proxy"] == "proxy-of-True"
        assert world.whatsapp.connections()[0]["proxy"] == "proxy-of-True"


async def test_a_passkey_is_asked_for_instead_of_completing_the_link(world: World) -> None:
    client = WireClient(world)
    qr = await client.register()
    await world.whatsapp.fault("passkey", phone=DANA, times=1)
    await world.whatsapp.scan(DANA, qr)
    notice = await client.until("notification", type="passkey_prologue_request")
    assert b'"rpId":"whatsapp.com"' in notice.bytes_of("passkey_request_options")
    assert world.whatsapp.devices(DANA) == []


async def test_a_device_that_hangs_up_while_it_is_linked_is_an_error_at_once(world: World) -> None:
    client = WireClient(world)
    scan = asyncio.create_task(world.whatsapp.scan(DANA, await client.register()))
    await client.until("iq", type="set")
    await client.close()
    with pytest.raises(SimulatorError) as refused:
        await scan
    assert refused.value.code == "LINK_FAILED"


async def test_all_devices_of_an_account_hear_what_is_said_to_it_and_what_it_says(world: World) -> None:
    one, other = await world.online(DANA), await world.online(DANA)
    await world.whatsapp.say(NOA, DANA, "to all")
    assert [await device.next_text() for device in (one, other)] == ["to all", "to all"]
    await world.whatsapp.say(DANA, NOA, "from my phone")
    for device in (one, other):
        stanza = await device.until("message", recipient=f"{NOA}@s.whatsapp.net")
        assert device.decrypt(stanza).message(31).message(2).text(1) == "from my phone"


async def test_a_new_device_is_announced_to_who_knows_the_account(world: World) -> None:
    dana = await world.online(DANA)
    await world.whatsapp.say(NOA, DANA, "we know each other")
    noa = await world.online(NOA)
    notice = await dana.until("notification", type="devices")
    assert notice.need("add").children("device")[0].attr("jid") == f"{NOA}:{noa.device}@s.whatsapp.net"
    await world.whatsapp.unlink(NOA)
    assert (await dana.until("notification", type="devices")).child("remove")


async def test_a_copy_for_another_linked_device_is_passed_on_unread(world: World) -> None:
    dana, noa = await world.online(DANA), await world.online(NOA)
    enc = node("enc", {"v": "2", "type": "msg"}, b"only Noa's device can read this")
    copies = [node("to", {"jid": f"{NOA}:{noa.device}@s.whatsapp.net"}, [enc])]
    attrs = {"id": "3EB001", "to": f"{NOA}@s.whatsapp.net", "type": "text"}
    await dana.send(node("message", attrs, [node("participants", content=copies)]))
    passed = await noa.until("message", id="3EB001")
    assert passed.attr("from") == f"{DANA}:{dana.device}@s.whatsapp.net"
    assert passed.need("enc").data == enc.data
    await noa.send(node("receipt", {"id": "3EB001", "to": passed.attr("from"), "type": "read"}))
    assert (await dana.until("receipt", type="read")).attr("from") == f"{NOA}@s.whatsapp.net"


async def test_a_phone_that_cannot_read_asks_again_and_the_answer_is_no_repeat(world: World) -> None:
    client = await world.online(DANA)
    session = await client.session(NOA)
    session.sending = type(session.sending)(bytes(32))  # type: ignore[misc]
    await client.say(NOA, "first try", "3EB001")
    asked = await client.until("receipt", type="retry")
    assert (asked.attr("id"), asked.need("retry").attr("count")) == ("3EB001", "1")
    assert [entry["kind"] for entry in world.whatsapp.arrivals()] == ["undecrypted"]
    assert _pending(world, DANA, "receipt 3EB001  ") == []  # not delivered: nobody could read it
    del client.sessions[NOA]
    await client.say(NOA, "second try", "3EB001")
    await client.until("ack", id="3EB001")
    (arrival,) = world.whatsapp.arrivals()
    assert (arrival["text"], arrival["repeat"]) == ("second try", False)
    assert "type" not in (await client.until("receipt", id="3EB001")).attrs


async def test_a_device_that_cannot_read_gets_the_message_encrypted_anew(world: World) -> None:
    client = await world.online(DANA)
    message_id = await world.whatsapp.say(NOA, DANA, "again please")
    first = await client.until("message", id=message_id)
    retry = [node("retry", {"count": "1", "id": message_id}), node("registration", content=bytes(4))]
    attrs = {"id": message_id, "to": f"{NOA}@s.whatsapp.net", "type": "retry"}
    await client.send(node("receipt", attrs, retry))
    second = await client.until("message", id=message_id)
    assert second.need("enc").attr("count") == "1"
    assert second.need("enc").data != first.need("enc").data
    assert client.decrypt(second).text(1) == "again please"


async def test_an_ack_that_is_delayed_comes_after_the_arrival(world: World) -> None:
    client = await world.online(DANA)
    await client.session(NOA)
    await world.whatsapp.fault("ack_delay", phone=DANA, seconds=0.2)
    await client.say(NOA, "slow", "3EB001")
    await client.ask("w:p", "get", node("ping"))
    assert [entry["id"] for entry in world.whatsapp.arrivals()] == ["3EB001"]
    assert (await client.until("ack")).attr("id") == "3EB001"


async def test_typing_is_noted_and_seen_by_the_other_side(world: World) -> None:
    dana, noa = await world.online(DANA), await world.online(NOA)
    await dana.send(node("chatstate", {"to": f"{NOA}@s.whatsapp.net"}, [node("composing")]))
    assert (await noa.until("chatstate")).attr("from") == f"{DANA}@s.whatsapp.net"
    (state,) = world.whatsapp.chatstates()
    assert (state["from"], state["to"], state["state"]) == (DANA, NOA, "composing")


# ── misbehaviour ────────────────────────────────────────────────────────────────────────────────────────────────────

MALFORMED = [
    b"",
    b"\x00",
    b"\x02not zlib",
    b"\xff" * 50,
    wire.encode(node("message")),
    wire.encode(node("message", {"id": "1", "to": f"{NOA}@s.whatsapp.net"}, b"text instead of children")),
    wire.encode(node("iq", {"id": "1", "type": "set", "xmlns": "encrypt"}, [node("list")])),
    wire.encode(node("iq", {"id": "1", "type": "get", "xmlns": "usync"})),
    wire.encode(
        node(
            "iq",
            {"id": "1", "type": "set", "xmlns": "w:sync:app:state"},
            [node("sync", content=[node("collection", {"name": "regular", "version": "x"})])],
        )
    ),
    wire.encode(node("receipt", {"id": "1", "to": "nobody"})),
    wire.encode(node("receipt", {"id": "1", "to": f"{NOA}@s.whatsapp.net", "type": "retry"})),
    wire.encode(node("iq", {"id": "1", "type": "result"}, [node("pair-device-sign")])),
]


@pytest.mark.parametrize("payload", MALFORMED, ids=lambda payload: payload[:12].hex())
async def test_a_malformed_stanza_harms_nobody_else(world: World, payload: bytes) -> None:
    bystander = await world.online(NOA)
    client = await world.online(DANA)
    await client.send_plain(payload)
    with contextlib.suppress(ConnectionClosed, TimeoutError):
        await asyncio.wait_for(client.ask("w:p", "get", node("ping")), WAIT_S)
    await bystander.ask("w:p", "get", node("ping"))
    assert (await client.login()).tag == "success"


@pytest.mark.parametrize(
    "opening",
    [
        b"",
        b"\x16\x03\x01\x02",
        b"GET / HTTP/9\r\n\r\n",
        b"POST /mms/image/x HTTP/1.1\r\ncontent-length: -5\r\n\r\n",
        b"\r\n" * 9,
    ],
    ids=["nothing", "tls", "http9", "negative", "blank"],
)
async def test_a_malformed_request_harms_nobody_else(world: World, opening: bytes) -> None:
    bystander = await world.online(NOA)
    reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
    writer.write(opening)
    writer.write_eof()
    with contextlib.suppress(OSError):
        assert b"200" not in await asyncio.wait_for(reader.read(), WAIT_S)
    writer.close()
    await bystander.ask("w:p", "get", node("ping"))


async def test_spoilt_stanzas_never_break_the_server(world: World) -> None:
    dice = random.Random(7)
    bystander = await world.online(NOA)
    client = await world.online(DANA)
    with structlog.testing.capture_logs() as logs:
        for number in range(200):
            stanza = copy.deepcopy(_TEMPLATES[number % len(_TEMPLATES)])
            for _ in range(dice.randint(1, 2)):
                _spoil(dice, stanza)
            try:
                await client.send(stanza)
                await client.ask("w:p", "get", node("ping"))
            except ConnectionClosed:
                await client.come_online()
    assert [entry for entry in logs if entry["log_level"] == "error"] == []
    assert any(entry["event"] == "simulator.client_misspoke" for entry in logs)
    await bystander.ask("w:p", "get", node("ping"))


def _key(tag: str) -> Node:
    return node(tag, content=[node(part, content=bytes(3)) for part in ("id", "value", "signature")])


def _iq(xmlns: str, kind: str, *content: Node, to: str = "@s.whatsapp.net") -> Node:
    return node("iq", {"id": "1", "xmlns": xmlns, "type": kind, "to": to}, list(content))


_ENC = node("enc", {"v": "2", "type": "pkmsg"}, bytes.fromhex("330809122105" + "11" * 32 + "1a2105" + "22" * 32))
_TO_NOA = f"{NOA}@s.whatsapp.net"
#: One sensible stanza of every kind; the test spoils a part or two of each.
_TEMPLATES = [
    node(
        "message",
        {"id": "1", "to": _TO_NOA, "type": "text"},
        [
            node(
                "participants",
                content=[node("to", {"jid": _TO_NOA}, [_ENC]), node("to", {"jid": f"{NOA}:1@lid"}, [_ENC])],
            )
        ],
    ),
    node("message", {"id": "2", "to": f"{NOA}:1@s.whatsapp.net"}, [_ENC]),
    node("message", {"id": "3", "to": "1@g.us", "participant": _TO_NOA}, [_ENC]),
    node("receipt", {"id": "1", "to": _TO_NOA, "type": "read"}, [node("list", content=[node("item", {"id": "2"})])]),
    node(
        "receipt",
        {"id": "1", "to": _TO_NOA, "type": "retry"},
        [
            node("retry", {"count": "1"}),
            node("keys", content=[node("identity", content=bytes([9]) * 32), _key("key"), _key("skey")]),
        ],
    ),
    node("ack", {"id": "1", "class": "receipt"}),
    node("presence", {"type": "available", "name": "me"}),
    node("chatstate", {"to": _TO_NOA}, [node("composing", {"media": "audio"})]),
    _iq("encrypt", "get", node("key", content=[node("user", {"jid": _TO_NOA}), node("user", {"jid": f"{NOA}:1@lid"})])),
    _iq("encrypt", "get", node("digest")),
    _iq("encrypt", "set", node("rotate", content=[_key("skey")])),
    _iq(
        "encrypt",
        "set",
        node("identity", content=bytes(32)),
        node("registration", content=bytes(4)),
        node("list", content=[_key("key")]),
        _key("skey"),
    ),
    _iq(
        "usync",
        "get",
        node(
            "usync",
            {"sid": "1"},
            [
                node("query", content=[node("devices"), node("lid"), node("contact")]),
                node(
                    "list", content=[node("user", {"jid": _TO_NOA}), node("user", {}, [node("contact", {}, "+1555")])]
                ),
            ],
        ),
    ),
    _iq(
        "w:sync:app:state",
        "set",
        node("sync", content=[node("collection", {"name": "regular", "version": "1"}, [node("patch", content=b"x")])]),
    ),
    _iq("w:mex", "get", node("query", {"query_id": "23983697327930364"})),
    _iq("w:g2", "set", node("create", {"subject": "x"}, [node("participant", {"jid": _TO_NOA})]), to="@g.us"),
    _iq("w:g2", "get", node("query"), to="1@g.us"),
    _iq("md", "set", node("link_code_companion_reg", {"jid": _TO_NOA, "stage": "companion_hello"}, [_key("x")])),
    _iq("md", "set", node("link_code_companion_reg", {"stage": "companion_finish"}, [_key("x")])),
]
_WRONG_VALUES = [
    "",
    "x",
    "-1",
    "@",
    "1@g.us",
    "5@lid",
    f"{DANA}:1@s.whatsapp.net",
    "999999999999999999999@lid",
    "\u0661",
]


def _spoil(dice: random.Random, stanza: Node) -> None:
    """Spoil one part, anywhere in the stanza."""
    children = stanza.children()
    if children and dice.random() < 0.6:
        _spoil(dice, dice.choice(children))
    elif stanza.attrs and dice.random() < 0.6:
        stanza.attrs[dice.choice(sorted(stanza.attrs))] = dice.choice(_WRONG_VALUES)
    elif children and dice.random() < 0.5:
        children.remove(dice.choice(children))
        stanza.content = children
    else:
        stanza.content = dice.choice(
            [None, [], b"", dice.randbytes(3), dice.randbytes(33), b"\x33" + dice.randbytes(60)]
        )


async def test_frames_of_noise_close_their_own_connection_only(world: World) -> None:
    bystander = await world.online(NOA)
    client = await world.online(DANA)
    assert client.socket
    await client.socket.send(noise.frame(secrets.token_bytes(64)))
    with pytest.raises(ConnectionClosed):
        await client.until("iq")
    await bystander.ask("w:p", "get", node("ping"))


def _pending(world: World, phone: str, kind: str = "message") -> list[str]:
    devices = world.whatsapp._hub.accounts.phone(phone).devices.values()
    return [key for device in devices for key in device.pending if key.startswith(kind)]
