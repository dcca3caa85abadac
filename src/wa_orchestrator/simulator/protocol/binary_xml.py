"""WhatsApp's binary XML: nodes to bytes and back, with the token dictionary of `tokens.json`."""

import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources

from wa_orchestrator.simulator.errors import ProtocolError
from wa_orchestrator.simulator.protocol import jid as jids

LIST_EMPTY, DICTIONARY_0, INTEROP_JID, FB_JID, AD_JID = 0, 236, 245, 246, 247
LIST_8, LIST_16, JID_PAIR, HEX_8, BINARY_8, BINARY_20, BINARY_32, NIBBLE_8 = range(248, 256)
_COMPRESSED = 2
_MAX_DEPTH = 32
_MAX_INFLATED = 1 << 24

_TOKENS = json.loads(resources.files(__package__).joinpath("tokens.json").read_text("utf-8"))
_SINGLE: list[str] = _TOKENS["single"]
_DOUBLE: list[list[str]] = _TOKENS["double"]
_CODES: dict[str, bytes] = {
    **{
        word: bytes([DICTIONARY_0 + page, index])
        for page, words in enumerate(_DOUBLE)
        for index, word in enumerate(words)
    },
    **{word: bytes([index]) for index, word in enumerate(_SINGLE) if word},
}
_IS_NIBBLES = re.compile(r"[0-9.\-]{1,127}").fullmatch
_IS_HEX = re.compile(r"[0-9A-F]{1,127}").fullmatch
_NIBBLES = "0123456789-."
_HEX = "0123456789ABCDEF"
#: Domain byte of a device JID ↔ server.
_DOMAINS = {"s.whatsapp.net": 0, "lid": 1, "hosted": 128, "hosted.lid": 129}
_SERVERS = {number: server for server, number in _DOMAINS.items()}


@dataclass(slots=True)
class Node:
    """An XML element: attributes are strings, the content is bytes, children, or nothing."""

    tag: str
    attrs: dict[str, str] = field(default_factory=dict)
    content: "bytes | list[Node] | None" = None

    def children(self, tag: str | None = None) -> "list[Node]":
        if not isinstance(self.content, list):
            return []
        return [child for child in self.content if tag is None or child.tag == tag]

    def child(self, tag: str) -> "Node | None":
        return next(iter(self.children(tag)), None)

    def require(self, tag: str) -> "Node":
        """Return a child. Raises ProtocolError if it is missing."""
        found = self.child(tag)
        if found is None:
            raise ProtocolError(f"<{self.tag}> has no <{tag}>")
        return found

    def child_bytes(self, tag: str) -> bytes:
        return self.require(tag).data

    @property
    def data(self) -> bytes:
        return self.content if isinstance(self.content, bytes) else b""

    def attr(self, name: str) -> str:
        return self.attrs.get(name, "")


def node(
    tag: str, attrs: Mapping[str, str | int | None] | None = None, content: "bytes | str | list[Node] | None" = None
) -> Node:
    """Return a node; attributes that are None are omitted."""
    kept = {name: str(value) for name, value in (attrs or {}).items() if value is not None}
    return Node(tag, kept, content.encode() if isinstance(content, str) else content)


def encode(root: Node) -> bytes:
    """Encode a stanza, uncompressed."""
    out = bytearray([0])
    _write_node(out, root)
    return bytes(out)


def compress(payload: bytes) -> bytes:
    """Compress an encoded stanza."""
    return bytes([payload[0] | _COMPRESSED]) + zlib.compress(payload[1:])


def decode(payload: bytes) -> Node:
    """Decode a stanza. Raises ProtocolError for anything that is not exactly one."""
    if not payload:
        raise ProtocolError("empty stanza")
    body = _inflate(payload[1:]) if payload[0] & _COMPRESSED else payload[1:]
    reader = _Reader(body)
    root = reader.node(0)
    if not reader.at_end:
        raise ProtocolError("bytes after the stanza")
    return root


def _inflate(packed: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(packed, _MAX_INFLATED)
    except zlib.error as error:
        raise ProtocolError("compressed stanza does not inflate") from error


def _write_node(out: bytearray, item: Node) -> None:
    _write_list(out, 1 + 2 * len(item.attrs) + (item.content is not None))
    _write_text(out, item.tag)
    for name, value in item.attrs.items():
        _write_text(out, name)
        _write_text(out, value)
    if isinstance(item.content, bytes):
        _write_bytes(out, item.content)
    elif item.content is not None:
        _write_list(out, len(item.content))
        for child in item.content:
            _write_node(out, child)


def _write_list(out: bytearray, size: int) -> None:
    if size == 0:
        out.append(LIST_EMPTY)
    elif size < 256:
        out += bytes([LIST_8, size])
    else:
        out.append(LIST_16)
        out += size.to_bytes(2, "big")


def _write_bytes(out: bytearray, data: bytes) -> None:
    size = len(data)
    if size < 256:
        out += bytes([BINARY_8, size])
    elif size < 1 << 20:
        out.append(BINARY_20)
        out += size.to_bytes(3, "big")
    else:
        out.append(BINARY_32)
        out += size.to_bytes(4, "big")
    out += data


def _write_text(out: bytearray, text: str) -> None:
    code = _CODES.get(text)
    if code:
        out += code
    elif _IS_NIBBLES(text):
        _write_packed(out, NIBBLE_8, _NIBBLES, text)
    elif _IS_HEX(text):
        _write_packed(out, HEX_8, _HEX, text)
    elif "@" in text and (address := jids.parse(text)) and str(address) == text:
        _write_jid(out, address)
    else:
        _write_bytes(out, text.encode())


def _write_packed(out: bytearray, tag: int, alphabet: str, text: str) -> None:
    size = (len(text) + 1) // 2
    out += bytes([tag, size | (len(text) % 2) << 7])
    values = [alphabet.index(character) for character in text] + [15] * (len(text) % 2)
    out += bytes(high << 4 | low for high, low in zip(values[::2], values[1::2], strict=True))


def _write_jid(out: bytearray, address: jids.Jid) -> None:
    if address.device is not None and address.server in _DOMAINS:
        out += bytes([AD_JID, _DOMAINS[address.server], address.device])
        _write_text(out, address.user)
        return
    out.append(JID_PAIR)
    user = address.user if address.device is None else f"{address.user}:{address.device}"
    if user:
        _write_text(out, user)
    else:
        out.append(LIST_EMPTY)
    _write_text(out, address.server)


class _Reader:
    """Reads one stanza; every read checks its bounds."""

    __slots__ = ("_body", "_position")

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._position = 0

    @property
    def at_end(self) -> bool:
        return self._position == len(self._body)

    def node(self, depth: int) -> Node:
        if depth > _MAX_DEPTH:
            raise ProtocolError("stanza is nested too deeply")
        size = self._list_size(self._byte())
        tag = self._text(self._byte())
        if not size or not tag:
            raise ProtocolError("node without a name")
        attrs: dict[str, str] = {}
        for _ in range((size - 1) // 2):
            name = self._text(self._byte())
            attrs[name] = self._text(self._byte())
        return Node(tag, attrs, None if size % 2 else self._content(depth))

    def _content(self, depth: int) -> bytes | list[Node]:
        tag = self._byte()
        if tag in (LIST_EMPTY, LIST_8, LIST_16):
            return [self.node(depth + 1) for _ in range(self._list_size(tag))]
        if tag in _SIZES:
            return self._take(_SIZES[tag](self))
        return self._text(tag).encode()

    def _list_size(self, tag: int) -> int:
        if tag == LIST_EMPTY:
            return 0
        if tag in (LIST_8, LIST_16):
            return self._number(tag - LIST_8 + 1)
        raise ProtocolError(f"tag {tag} is not a list")

    def _text(self, tag: int) -> str:
        if 1 <= tag < len(_SINGLE):
            return _SINGLE[tag]
        reader = _TEXTS.get(tag)
        if reader is None:
            raise ProtocolError(f"tag {tag} is not text")
        return reader(self, tag)

    def _token(self, tag: int) -> str:
        index = self._byte()
        words = _DOUBLE[tag - DICTIONARY_0]
        if index >= len(words):
            raise ProtocolError("unknown token")
        return words[index]

    def _raw_text(self, tag: int) -> str:
        try:
            return self._take(_SIZES[tag](self)).decode()
        except UnicodeDecodeError as error:
            raise ProtocolError("text that is not UTF-8") from error

    def _pair(self, _tag: int) -> str:
        user = self._text(self._byte())
        server = self._text(self._byte())
        return f"{user}@{server}"

    def _device(self, _tag: int) -> str:
        domain, device = self._byte(), self._byte()
        user = self._text(self._byte())
        server = _SERVERS.get(domain, "s.whatsapp.net")
        return str(jids.Jid(user, server, device or None))

    def _facebook(self, _tag: int) -> str:
        user = self._text(self._byte())
        device = self._number(2)
        return f"{user}:{device}@{self._text(self._byte())}"

    def _interop(self, _tag: int) -> str:
        user = self._text(self._byte())
        device, integrator = self._number(2), self._number(2)
        return f"{integrator}-{user}:{device}@{self._text(self._byte())}"

    def _packed(self, tag: int) -> str:
        start = self._byte()
        alphabet = _HEX if tag == HEX_8 else _NIBBLES
        values = list(_halves(self._take(start & 127)))
        if start & 128 and values:
            values.pop()
        if any(value >= len(alphabet) for value in values):
            raise ProtocolError("packed text with an unknown digit")
        return "".join(alphabet[value] for value in values)

    def _byte(self) -> int:
        return self._take(1)[0]

    def _number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big")

    def _take(self, size: int) -> bytes:
        chunk = self._body[self._position : self._position + size]
        if len(chunk) != size:
            raise ProtocolError("stanza is cut off")
        self._position += size
        return chunk


def _halves(data: bytes) -> Iterator[int]:
    for byte in data:
        yield byte >> 4
        yield byte & 15


_SIZES: dict[int, Callable[[_Reader], int]] = {
    BINARY_8: lambda reader: reader._number(1),
    BINARY_20: lambda reader: reader._number(3) & 0xFFFFF,
    BINARY_32: lambda reader: reader._number(4),
}
_TEXTS: dict[int, Callable[[_Reader, int], str]] = {
    LIST_EMPTY: lambda _reader, _tag: "",
    **{DICTIONARY_0 + page: _Reader._token for page in range(4)},
    **dict.fromkeys((BINARY_8, BINARY_20, BINARY_32), _Reader._raw_text),
    JID_PAIR: _Reader._pair,
    AD_JID: _Reader._device,
    FB_JID: _Reader._facebook,
    INTEROP_JID: _Reader._interop,
    HEX_8: _Reader._packed,
    NIBBLE_8: _Reader._packed,
}
