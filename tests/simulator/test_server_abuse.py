"""Malformed data affects only its own connection."""

import asyncio
import contextlib
import copy
import random
import secrets

import pytest
import structlog
from websockets.exceptions import ConnectionClosed

from tests.simulator.wireclient import WAIT_S, World
from wa_orchestrator.simulator.protocol import binary_xml, noise
from wa_orchestrator.simulator.protocol.binary_xml import Node, node

DANA, NOA, UNKNOWN = "972501111111", "972502222222", "972503333333"


MALFORMED = [
    b"",
    b"\x00",
    b"\x02not zlib",
    b"\xff" * 50,
    binary_xml.encode(node("message")),
    binary_xml.encode(node("message", {"id": "1", "to": f"{NOA}@s.whatsapp.net"}, b"text instead of children")),
    binary_xml.encode(node("iq", {"id": "1", "type": "set", "xmlns": "encrypt"}, [node("list")])),
    binary_xml.encode(node("iq", {"id": "1", "type": "get", "xmlns": "usync"})),
    binary_xml.encode(
        node(
            "iq",
            {"id": "1", "type": "set", "xmlns": "w:sync:app:state"},
            [node("sync", content=[node("collection", {"name": "regular", "version": "x"})])],
        )
    ),
    binary_xml.encode(node("receipt", {"id": "1", "to": "nobody"})),
    binary_xml.encode(node("receipt", {"id": "1", "to": f"{NOA}@s.whatsapp.net", "type": "retry"})),
    binary_xml.encode(node("iq", {"id": "1", "type": "result"}, [node("pair-device-sign")])),
]


@pytest.mark.parametrize("payload", MALFORMED, ids=lambda payload: payload[:12].hex())
async def test_a_malformed_stanza_affects_no_other_connection(world: World, payload: bytes) -> None:
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
async def test_a_malformed_request_affects_no_other_connection(world: World, opening: bytes) -> None:
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
    assert any(entry["event"] == "simulator.protocol_error" for entry in logs)
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
    """Corrupt one random part of the stanza."""
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


async def test_random_frames_close_their_own_connection_only(world: World) -> None:
    bystander = await world.online(NOA)
    client = await world.online(DANA)
    assert client.socket
    await client.socket.send(noise.frame(secrets.token_bytes(64)))
    with pytest.raises(ConnectionClosed):
        await client.until("iq")
    await bystander.ask("w:p", "get", node("ping"))
