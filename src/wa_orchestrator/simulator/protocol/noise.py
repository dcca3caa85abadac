"""Noise_XX_25519_AESGCM_SHA256 as WhatsApp uses it: framing, both sides of the handshake, the certificate chain."""

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from wa_orchestrator.simulator.errors import ProtocolError
from wa_orchestrator.simulator.protocol import curve25519, protobuf
from wa_orchestrator.simulator.protocol.curve25519 import KeyPair

PROLOGUE = b"WA\x06\x03"
_NAME = b"Noise_XX_25519_AESGCM_SHA256\0\0\0\0"  # exactly 32 bytes, so it is not hashed
_ROUTING = b"ED\x00\x01"
_MAX_FRAME = 1 << 24


class Cipher:
    """One direction of AES-256-GCM with a counter as nonce."""

    __slots__ = ("_aead", "_counter")

    def __init__(self, key: bytes) -> None:
        self._aead = AESGCM(key)
        self._counter = 0

    def seal(self, plain: bytes, aad: bytes = b"") -> bytes:
        return self._aead.encrypt(self._nonce(), plain, aad)

    def open(self, sealed: bytes, aad: bytes = b"") -> bytes:
        try:
            return self._aead.decrypt(self._nonce(), sealed, aad)
        except (InvalidTag, ValueError) as error:
            raise ProtocolError("frame does not decrypt") from error

    def _nonce(self) -> bytes:
        nonce = struct.pack(">QI", 0, self._counter)
        self._counter += 1
        return nonce


class NoiseHandshake:
    """The symmetric state of the handshake."""

    def __init__(self) -> None:
        self._hash = self._chain = _NAME
        self._cipher: Cipher | None = None
        self.mix_hash(PROLOGUE)

    def mix_hash(self, data: bytes) -> None:
        self._hash = hashlib.sha256(self._hash + data).digest()

    def mix_key(self, private: bytes, public: bytes) -> None:
        try:
            secret = curve25519.dh(private, public)
        except ValueError as error:
            raise ProtocolError("not a public key") from error
        both = curve25519.hkdf(secret, 64, salt=self._chain)
        self._chain, self._cipher = both[:32], Cipher(both[32:])

    def seal(self, plain: bytes) -> bytes:
        sealed = self._keyed().seal(plain, self._hash)
        self.mix_hash(sealed)
        return sealed

    def open(self, sealed: bytes) -> bytes:
        plain = self._keyed().open(sealed, self._hash)
        self.mix_hash(sealed)
        return plain

    def split(self) -> tuple[Cipher, Cipher]:
        """Return the ciphers client → server and server → client."""
        both = curve25519.hkdf(b"", 64, salt=self._chain)
        return Cipher(both[:32]), Cipher(both[32:])

    def _keyed(self) -> Cipher:
        if self._cipher is None:
            raise ProtocolError("no key yet")
        return self._cipher


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """The server's static key and its certificate chain."""

    root_public: bytes
    static: KeyPair
    chain: bytes

    @classmethod
    def issue(cls, root: KeyPair, *, not_before: int, not_after: int) -> "ServerIdentity":
        intermediate, static = KeyPair.generate(), KeyPair.generate()
        dates = {4: not_before, 5: not_after}
        middle = protobuf.encode({1: 1, 2: 0, 3: intermediate.public, **dates})
        leaf = protobuf.encode({1: 2, 2: 1, 3: static.public, **dates})
        chain = protobuf.encode(
            {
                1: {1: leaf, 2: curve25519.sign(intermediate.private, leaf)},
                2: {1: middle, 2: curve25519.sign(root.private, middle)},
            }
        )
        return cls(root.public, static, chain)


def check_chain(root: bytes, chain: bytes, static: bytes) -> None:
    """Verify a certificate chain as clients do. Raises ProtocolError."""
    fields = protobuf.decode(chain)
    leaf, middle = fields.message(1), fields.message(2)
    issuer = protobuf.decode(middle.raw(1))
    subject = protobuf.decode(leaf.raw(1))
    if not curve25519.verify(root, middle.raw(1), middle.raw(2)) or issuer.number(2) != 0:
        raise ProtocolError("the intermediate certificate is not signed by the root")
    if not curve25519.verify(issuer.raw(3), leaf.raw(1), leaf.raw(2)) or subject.raw(3) != static:
        raise ProtocolError("the leaf certificate does not match")


@dataclass(frozen=True, slots=True)
class HandshakeResult:
    """The result of the handshake on the server side."""

    client_static: bytes
    payload: bytes
    receive: Cipher
    send: Cipher


class Responder:
    """The server side: `hello` answers the client hello, `finish` handles the client finish."""

    def __init__(self, authority: ServerIdentity) -> None:
        self._authority = authority
        self._state = NoiseHandshake()
        self._ephemeral = KeyPair.generate()

    def hello(self, frame: bytes) -> bytes:
        client = protobuf.decode(frame).message(2).raw(1)
        state = self._state
        state.mix_hash(client)
        state.mix_hash(self._ephemeral.public)
        state.mix_key(self._ephemeral.private, client)
        static = state.seal(self._authority.static.public)
        state.mix_key(self._authority.static.private, client)
        certificate = state.seal(self._authority.chain)
        return protobuf.encode({3: {1: self._ephemeral.public, 2: static, 3: certificate}})

    def finish(self, frame: bytes) -> HandshakeResult:
        fields = protobuf.decode(frame).message(4)
        client_static = self._state.open(fields.raw(1))
        self._state.mix_key(self._ephemeral.private, client_static)
        payload = self._state.open(fields.raw(2))
        receive, send = self._state.split()
        return HandshakeResult(client_static, payload, receive, send)


class Initiator:
    """The client side. With a `root` it verifies the server's certificate chain."""

    def __init__(self, static: KeyPair, root: bytes | None = None) -> None:
        self._static = static
        self._root = root
        self._state = NoiseHandshake()
        self._ephemeral = KeyPair.generate()

    def hello(self) -> bytes:
        self._state.mix_hash(self._ephemeral.public)
        return protobuf.encode({2: {1: self._ephemeral.public}})

    def finish(self, frame: bytes, payload: bytes) -> tuple[bytes, Cipher, Cipher]:
        """Answer the server hello. Returns the frame to send and the ciphers for sending and receiving."""
        fields = protobuf.decode(frame).message(3)
        state, server = self._state, fields.raw(1)
        state.mix_hash(server)
        state.mix_key(self._ephemeral.private, server)
        static = state.open(fields.raw(2))
        state.mix_key(self._ephemeral.private, static)
        chain = state.open(fields.raw(3))
        if self._root:
            check_chain(self._root, chain, static)
        sealed_static = state.seal(self._static.public)
        state.mix_key(self._static.private, server)
        sealed_payload = state.seal(payload)
        send, receive = state.split()
        return protobuf.encode({4: {1: sealed_static, 2: sealed_payload}}), send, receive


def frame(body: bytes) -> bytes:
    """Prepend the three-byte length."""
    if len(body) >= _MAX_FRAME:
        raise ProtocolError("frame is too long")
    return len(body).to_bytes(3, "big") + body


class FrameReader:
    """Splits the byte stream of a client into frames, after the intro that precedes the first."""

    __slots__ = ("_buffer", "_intro", "routing_info")

    def __init__(self, *, expects_intro: bool) -> None:
        self._buffer = bytearray()
        self._intro = expects_intro
        #: what a client begins with that was told where to connect
        self.routing_info = b""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield every complete frame. Raises ProtocolError for a wrong intro."""
        self._buffer += chunk
        if self._intro and not self._take_intro():
            return
        while len(self._buffer) >= 3:
            end = 3 + int.from_bytes(self._buffer[:3], "big")
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[3:end])
            del self._buffer[:end]
            yield body

    def _take_intro(self) -> bool:
        """Skip the prologue and the optional routing info before it. Returns False while they are incomplete."""
        buffer, start = bytes(self._buffer), 0
        if buffer[:1] == _ROUTING[:1]:
            if not _ROUTING.startswith(buffer[:4]):
                raise ProtocolError("not a WhatsApp client")
            if len(buffer) < 7:
                return False
            start = 7 + int.from_bytes(buffer[4:7], "big")
            self.routing_info = buffer[7:start]
        if not PROLOGUE.startswith(buffer[start : start + 4]):
            raise ProtocolError("not a WhatsApp client, or another version of the protocol")
        if len(buffer) < start + 4:
            return False
        del self._buffer[: start + 4]
        self._intro = False
        return True
