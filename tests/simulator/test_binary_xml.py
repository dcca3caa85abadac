"""Binary XML: the same bytes as real clients, and safe against any other bytes."""

import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wa_orchestrator.simulator.errors import ProtocolError
from wa_orchestrator.simulator.protocol import binary_xml
from wa_orchestrator.simulator.protocol.binary_xml import Node, node

#: Stanzas as the client library encodes them.
PING = "00f80a1911fa00030429165708ff8412b34a5ff801f80156"
RECEIPT = "00f8090708fb81af11f70102ff08119999911053912805faff091203634672809937981c1aff051700000000"

words = st.one_of(
    st.text(max_size=40),
    st.from_regex(r"[0-9.\-]{1,127}", fullmatch=True),
    st.from_regex(r"[0-9A-F]{1,127}", fullmatch=True),
    st.sampled_from(
        ["message", "s.whatsapp.net", "relay", "@s.whatsapp.net", "12@g.us", "3:7@lid", "3:255@s.whatsapp.net"]
    ),
)
names = words.filter(bool)
leaves = st.builds(Node, names, st.dictionaries(names, words, max_size=4), st.none() | st.binary(max_size=400))
nodes = st.recursive(
    leaves,
    lambda inner: st.builds(Node, names, st.dictionaries(names, words, max_size=3), st.lists(inner, max_size=4)),
    max_leaves=12,
)


def test_a_ping_is_what_a_real_client_sends() -> None:
    attrs = {"to": "@s.whatsapp.net", "type": "get", "xmlns": "w:p", "id": "12.34-5"}
    ping = Node("iq", attrs, [Node("ping")])
    assert binary_xml.decode(bytes.fromhex(PING)) == ping
    assert binary_xml.encode(ping).hex() == PING


def test_device_and_group_addresses_are_what_a_real_client_sends() -> None:
    attrs = {"id": "A", "to": "1199999110539128:2@lid", "participant": "120363467280993798@g.us", "t": "1700000000"}
    assert binary_xml.decode(bytes.fromhex(RECEIPT)) == Node("receipt", attrs)
    assert binary_xml.encode(Node("receipt", attrs)).hex() == RECEIPT


@settings(max_examples=30)
@given(nodes)
def test_decoding_reverses_encoding(root: Node) -> None:
    assert binary_xml.decode(binary_xml.encode(root)) == root


@settings(max_examples=30)
@given(nodes)
def test_a_compressed_stanza_is_the_same(root: Node) -> None:
    assert binary_xml.decode(b"\x02" + zlib.compress(binary_xml.encode(root)[1:])) == root


@given(st.binary(max_size=300))
def test_any_bytes_are_a_stanza_or_a_protocol_error(payload: bytes) -> None:
    try:
        binary_xml.decode(payload)
    except ProtocolError:
        return


@settings(max_examples=30)
@given(nodes, st.data())
def test_a_truncated_or_altered_stanza_is_a_stanza_or_a_protocol_error(root: Node, data: st.DataObject) -> None:
    whole = bytearray(binary_xml.encode(root))
    with pytest.raises(ProtocolError):
        binary_xml.decode(bytes(whole[: data.draw(st.integers(0, len(whole) - 1))]))
    whole[data.draw(st.integers(1, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        binary_xml.decode(bytes(whole))
    except ProtocolError:
        return


def test_a_stanza_nested_without_end_is_refused() -> None:
    with pytest.raises(ProtocolError):
        binary_xml.decode(b"\x00" + b"\xf8\x02\x13\xf8\x01" * 5000)


def test_a_missing_child_is_a_protocol_error() -> None:
    assert node("a", {"x": None, "n": 3}, "text") == Node("a", {"n": "3"}, b"text")
    with pytest.raises(ProtocolError):
        node("a").require("b")
