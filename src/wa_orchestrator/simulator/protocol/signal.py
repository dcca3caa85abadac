"""Signal protocol (version 3): X3DH and the double ratchet."""

import hmac
from collections import OrderedDict
from dataclasses import dataclass, field, replace

from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from wa_orchestrator.simulator.errors import ProtocolError
from wa_orchestrator.simulator.protocol import curve25519, protobuf
from wa_orchestrator.simulator.protocol.curve25519 import KeyPair

VERSION = b"\x33"
DJB = b"\x05"
_ZEROS = bytes(32)
_MAX_SKIP = 2000
_MAX_OLD_CHAINS = 5


class UndecryptableError(ProtocolError):
    """A message without a matching key: request a retry from the sender."""


@dataclass(frozen=True, slots=True)
class PreKeyBundle:
    """The public keys of a device with which others start a session."""

    registration: int
    identity: bytes
    signed_id: int
    signed_key: bytes
    signature: bytes
    prekey_id: int | None = None
    prekey: bytes | None = None

    @property
    def has_valid_signature(self) -> bool:
        return curve25519.verify(self.identity, DJB + self.signed_key, self.signature)


@dataclass(frozen=True, slots=True)
class PreKeyMessage:
    """The first message of a session: its keys and an ordinary message (`pkmsg`)."""

    prekey_id: int | None
    base_key: bytes
    identity: bytes
    message: bytes
    registration: int
    signed_id: int

    @classmethod
    def read(cls, raw: bytes) -> "PreKeyMessage":
        if raw[:1] != VERSION:
            raise ProtocolError("not a version 3 message")
        fields = protobuf.decode(raw[1:])
        prekey_id = fields.number(1) if 1 in fields else None
        keys = [_without_type(fields.raw(number)) for number in (2, 3)]
        return cls(prekey_id, keys[0], keys[1], fields.raw(4), fields.number(5), fields.number(6))


@dataclass(slots=True)
class Chain:
    """A one-way chain of message keys."""

    key: bytes
    index: int = 0

    def next(self) -> bytes:
        message_key = curve25519.mac(self.key, b"\x01")
        self.key = curve25519.mac(self.key, b"\x02")
        self.index += 1
        return message_key


@dataclass(slots=True)
class SignalSession:
    """One side of a double ratchet. Decrypting changes it only if the message is authentic."""

    own_identity: bytes
    peer_identity: bytes
    root: bytes
    ratchet: KeyPair
    sending: Chain | None = None
    previous: int = 0
    #: the peer's ratchet key → its chain, newest last
    receiving: "OrderedDict[bytes, Chain]" = field(default_factory=OrderedDict)
    #: skipped message keys: (ratchet key, counter) → key
    skipped: dict[tuple[bytes, int], bytes] = field(default_factory=dict)
    #: until the peer answers, every message is a pre-key message
    prekey_message: dict[int, int | bytes] | None = None
    base_key: bytes = b""

    @classmethod
    def initiate(cls, own: KeyPair, registration: int, bundle: PreKeyBundle) -> "SignalSession":
        """Start a session from a pre-key bundle."""
        base, ratchet = KeyPair.generate(), KeyPair.generate()
        secrets = [
            curve25519.dh(own.private, bundle.signed_key),
            curve25519.dh(base.private, bundle.identity),
            curve25519.dh(base.private, bundle.signed_key),
        ]
        prekey_message: dict[int, int | bytes] = {}
        if bundle.prekey is not None and bundle.prekey_id is not None:
            secrets.append(curve25519.dh(base.private, bundle.prekey))
            prekey_message[1] = bundle.prekey_id
        prekey_message |= {2: DJB + base.public, 3: DJB + own.public, 5: registration, 6: bundle.signed_id}
        root, first = _derive_root(secrets)
        session = cls(own.public, bundle.identity, root, ratchet, prekey_message=prekey_message, base_key=base.public)
        session.receiving[bundle.signed_key] = Chain(first)
        session._ratchet_sending(bundle.signed_key)
        return session

    @classmethod
    def respond(
        cls, own: KeyPair, signed: KeyPair, prekey: KeyPair | None, prekey_message: PreKeyMessage
    ) -> "SignalSession":
        """Accept a session that a peer has started."""
        secrets = [
            curve25519.dh(signed.private, prekey_message.identity),
            curve25519.dh(own.private, prekey_message.base_key),
            curve25519.dh(signed.private, prekey_message.base_key),
        ]
        if prekey is not None:
            secrets.append(curve25519.dh(prekey.private, prekey_message.base_key))
        root, first = _derive_root(secrets)
        # Our signed pre-key is our first ratchet key; its chain is never used, because the peer ratchets first.
        return cls(
            own.public, prekey_message.identity, root, signed, sending=Chain(first), base_key=prekey_message.base_key
        )

    def encrypt(self, plain: bytes) -> tuple[str, bytes]:
        """Return the type of the message, `pkmsg` or `msg`, and its bytes."""
        if self.sending is None:
            raise ProtocolError("session cannot send yet")
        counter = self.sending.index
        aes, mac_key, iv = _message_keys(self.sending.next())
        body: protobuf.Layout = {
            1: DJB + self.ratchet.public,
            2: counter,
            3: self.previous,
            4: _cbc_encrypt(aes, iv, plain),
        }
        message = VERSION + protobuf.encode(body)
        message += _tag(mac_key, self.own_identity, self.peer_identity, message)
        if self.prekey_message is None:
            return "msg", message
        return "pkmsg", VERSION + protobuf.encode({**self.prekey_message, 4: message})

    def decrypt(self, message: bytes) -> bytes:
        """Decrypt an ordinary message. Raises UndecryptableError and leaves the session unchanged."""
        trial = replace(
            self,
            receiving=OrderedDict((key, replace(chain)) for key, chain in self.receiving.items()),
            skipped=dict(self.skipped),
            sending=None if self.sending is None else replace(self.sending),
        )
        plain = trial._decrypt(message)
        for name in ("root", "ratchet", "sending", "previous", "receiving", "skipped"):
            setattr(self, name, getattr(trial, name))
        self.prekey_message = None
        return plain

    def _decrypt(self, message: bytes) -> bytes:
        if len(message) < 10 or message[:1] != VERSION:
            raise UndecryptableError("not a version 3 message")
        fields = protobuf.decode(message[1:-8])
        peer, counter = _without_type(fields.raw(1)), fields.number(2)
        key = self.skipped.pop((peer, counter), None)
        if key is None:
            if peer not in self.receiving:
                self._ratchet_receiving(peer, fields.number(3))
            key = self._key_at(peer, counter)
        aes, mac_key, iv = _message_keys(key)
        if not hmac.compare_digest(_tag(mac_key, self.peer_identity, self.own_identity, message[:-8]), message[-8:]):
            raise UndecryptableError("message MAC is wrong")
        return _cbc_decrypt(aes, iv, fields.raw(4))

    def _key_at(self, peer: bytes, counter: int) -> bytes:
        chain = self.receiving[peer]
        if counter < chain.index:
            raise UndecryptableError("message was decrypted before")
        if counter - chain.index > _MAX_SKIP:
            raise UndecryptableError("too many skipped messages")
        while chain.index < counter:
            index = chain.index
            self.skipped[peer, index] = chain.next()
        self._drop_oldest_skipped()
        return chain.next()

    def _drop_oldest_skipped(self) -> None:
        while len(self.skipped) > _MAX_SKIP:
            del self.skipped[next(iter(self.skipped))]

    def _ratchet_receiving(self, peer: bytes, previous: int) -> None:
        if self.receiving:
            newest = next(reversed(self.receiving))
            chain = self.receiving[newest]
            # whatsmeow's first answer has a previous counter of 2^32 - 1: derive a bounded number of keys.
            last = min(previous, chain.index + _MAX_SKIP)
            while chain.index < last:
                index = chain.index
                self.skipped[newest, index] = chain.next()
            self._drop_oldest_skipped()
        self.root, first = _ratchet(self.root, self.ratchet.private, peer)
        self.receiving[peer] = Chain(first)
        while len(self.receiving) > _MAX_OLD_CHAINS:
            self.receiving.popitem(last=False)
        self.previous = self.sending.index if self.sending else 0
        self.ratchet = KeyPair.generate()
        self._ratchet_sending(peer)

    def _ratchet_sending(self, peer: bytes) -> None:
        self.root, first = _ratchet(self.root, self.ratchet.private, peer)
        self.sending = Chain(first)


def pad(plain: bytes, count: int) -> bytes:
    """Add WhatsApp's padding: n bytes of value n, 1 to 16."""
    return plain + bytes([count]) * count


def unpad(padded: bytes) -> bytes:
    if not padded or padded[-1] > len(padded):
        raise ProtocolError("wrong padding")
    return padded[: len(padded) - padded[-1]]


def _derive_root(secrets: list[bytes]) -> tuple[bytes, bytes]:
    both = curve25519.hkdf(b"\xff" * 32 + b"".join(secrets), 64, salt=_ZEROS, info=b"WhisperText")
    return both[:32], both[32:]


def _ratchet(root: bytes, private: bytes, peer: bytes) -> tuple[bytes, bytes]:
    try:
        secret = curve25519.dh(private, peer)
    except ValueError as error:
        raise UndecryptableError("not a ratchet key") from error
    both = curve25519.hkdf(secret, 64, salt=root, info=b"WhisperRatchet")
    return both[:32], both[32:]


def _message_keys(key: bytes) -> tuple[bytes, bytes, bytes]:
    derived = curve25519.hkdf(key, 80, salt=_ZEROS, info=b"WhisperMessageKeys")
    return derived[:32], derived[32:64], derived[64:]


def _tag(key: bytes, sender: bytes, receiver: bytes, message: bytes) -> bytes:
    return curve25519.mac(key, DJB, sender, DJB, receiver, message)[:8]


def _without_type(key: bytes) -> bytes:
    if len(key) != 33 or key[:1] != DJB:
        raise UndecryptableError("not a public key")
    return key[1:]


def _cbc_encrypt(key: bytes, iv: bytes, plain: bytes) -> bytes:
    padder = padding.PKCS7(128).padder()
    encryptor = Cipher(algorithms.AES(key), modes.CBC(iv)).encryptor()
    return encryptor.update(padder.update(plain) + padder.finalize()) + encryptor.finalize()


def _cbc_decrypt(key: bytes, iv: bytes, sealed: bytes) -> bytes:
    decryptor = Cipher(algorithms.AES(key), modes.CBC(iv)).decryptor()
    unpadder = padding.PKCS7(128).unpadder()
    try:
        return unpadder.update(decryptor.update(sealed) + decryptor.finalize()) + unpadder.finalize()
    except ValueError as error:
        raise UndecryptableError("message does not decrypt") from error


cbc_encrypt, cbc_decrypt = _cbc_encrypt, _cbc_decrypt
