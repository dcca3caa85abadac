"""Protocol buffers without a schema."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.simulator.errors import ProtocolError
from wa_orchestrator.simulator.protocol import protobuf

fields = st.dictionaries(
    st.integers(1, 2**20), st.one_of(st.integers(0, 2**64 - 1), st.binary(max_size=300)), max_size=12
)


def test_the_bytes_are_those_of_the_specification() -> None:
    assert protobuf.encode({1: 150}).hex() == "089601"
    assert protobuf.encode({2: "testing"}).hex() == "120774657374696e67"
    assert protobuf.encode({3: {1: 150}}).hex() == "1a03089601"
    assert protobuf.encode({1: -1}).hex() == "08ffffffffffffffffff01"
    assert protobuf.encode({4: [1, 2], 5: None, 6: True}).hex() == "200120023001"


@given(fields)
def test_decoding_reverses_encoding(layout: dict[int, int | bytes]) -> None:
    decoded = protobuf.decode(protobuf.encode(layout))
    assert set(decoded) == set(layout)
    for number, value in layout.items():
        assert (decoded.number(number) if isinstance(value, int) else decoded.raw(number)) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_protocol_error(payload: bytes) -> None:
    try:
        protobuf.decode(payload)
    except ProtocolError:
        return


@given(fields.filter(bool), st.data())
def test_a_truncated_message_never_decodes_as_the_complete_one(
    layout: dict[int, int | bytes], data: st.DataObject
) -> None:
    whole = protobuf.encode(layout)
    part = whole[: data.draw(st.integers(0, len(whole) - 1))]
    try:
        decoded = protobuf.decode(part)
    except ProtocolError:
        return
    assert len(list(decoded)) < len(layout)


def test_a_missing_field_is_empty_and_a_wrong_kind_is_an_error() -> None:
    decoded = protobuf.decode(protobuf.encode({1: 7, 2: b"x", 3: ["a", "b"]}))
    assert (decoded.number(9), decoded.raw(9), decoded.text(9)) == (0, b"", "")
    assert decoded.all(3) == [b"a", b"b"]
    with pytest.raises(ProtocolError):
        decoded.raw(1)
    with pytest.raises(ProtocolError):
        decoded.number(2)
