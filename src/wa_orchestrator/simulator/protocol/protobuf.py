"""Protocol buffers without a schema: fields are addressed by number."""

import struct
from collections.abc import Iterator, Mapping, Sequence

from wa_orchestrator.simulator.errors import ProtocolError

Scalar = int | float | bytes | str | bool
Value = Scalar | Mapping[int, "Value | Sequence[Value] | None"]
Layout = Mapping[int, "Value | Sequence[Value] | None"]

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5


def encode(layout: Layout) -> bytes:
    """Encode field number → value. A list repeats the field, a mapping is a nested message, None is omitted."""
    out = bytearray()
    for number, value in layout.items():
        if value is None:
            continue
        if isinstance(value, (list, tuple)):
            for item in value:
                _field(out, number, item)
        else:
            _field(out, number, value)  # type: ignore[arg-type]
    return bytes(out)


def _field(out: bytearray, number: int, value: Value) -> None:
    if isinstance(value, int):
        out += varint(number << 3 | VARINT)
        out += varint(value)
        return
    if isinstance(value, float):
        out += varint(number << 3 | FIXED64) + struct.pack("<d", value)
        return
    if isinstance(value, str):
        value = value.encode()
    elif isinstance(value, Mapping):
        value = encode(value)
    out += varint(number << 3 | LENGTH)
    out += varint(len(value))
    out += value


def varint(value: int) -> bytes:
    """Encode an integer; negative ones as 64-bit two's complement."""
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


class ProtobufFields:
    """A decoded message: every field has all its values in order; a missing one reads as empty."""

    __slots__ = ("_values",)

    def __init__(self, values: dict[int, list[int | bytes]]) -> None:
        self._values = values

    def __contains__(self, number: int) -> bool:
        return number in self._values

    def __iter__(self) -> Iterator[int]:
        return iter(self._values)

    def raw(self, number: int) -> bytes:
        value = self._values.get(number, [b""])[-1]
        if isinstance(value, int):
            raise ProtocolError(f"field {number} is a number, not bytes")
        return value

    def number(self, number: int) -> int:
        value = self._values.get(number, [0])[-1]
        if isinstance(value, bytes):
            raise ProtocolError(f"field {number} is bytes, not a number")
        return value

    def text(self, number: int) -> str:
        return self.raw(number).decode("utf-8", "replace")

    def message(self, number: int) -> "ProtobufFields":
        return decode(self.raw(number))

    def encoded(self) -> bytes:
        """Return the bytes of a message that has no fields of fixed length."""
        return encode(self._values)

    def all(self, number: int) -> list[bytes]:
        return [value for value in self._values.get(number, []) if isinstance(value, bytes)]


def decode(payload: bytes) -> ProtobufFields:
    """Decode a message. Raises ProtocolError for anything that is not one."""
    values: dict[int, list[int | bytes]] = {}
    position = 0
    while position < len(payload):
        key, position = _varint(payload, position)
        number, kind = key >> 3, key & 7
        value: int | bytes
        if kind == VARINT:
            value, position = _varint(payload, position)
        elif kind in (LENGTH, FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
            if kind == LENGTH:
                size, position = _varint(payload, position)
            value = payload[position : position + size]
            if len(value) != size:
                raise ProtocolError("protobuf field is cut off")
            position += size
        else:
            raise ProtocolError(f"unknown protobuf wire type {kind}")
        if not number:
            raise ProtocolError("protobuf field number 0")
        values.setdefault(number, []).append(value)
    return ProtobufFields(values)


def _varint(payload: bytes, position: int) -> tuple[int, int]:
    result = 0
    for shift in range(0, 70, 7):
        if position >= len(payload):
            raise ProtocolError("protobuf number is cut off")
        byte = payload[position]
        position += 1
        result |= (byte & 127) << shift
        if byte < 128:
            return result & (2**64 - 1), position
    raise ProtocolError("protobuf number is too long")
