"""Sender keys of Signal groups: each sender distributes one chain and encrypts every message once."""

import secrets
from dataclasses import dataclass, field

from wa_orchestrator.simulator.protocol import curve25519, protobuf
from wa_orchestrator.simulator.protocol.curve25519 import KeyPair
from wa_orchestrator.simulator.protocol.signal import DJB, VERSION, Chain, UndecryptableError, cbc_decrypt, cbc_encrypt

_MAX_SKIP = 2000


@dataclass(slots=True)
class SenderKey:
    """The chain of one sender in one group; only the sender has the signing key."""

    key_id: int
    chain: Chain
    signing_public: bytes
    signing_private: bytes | None = None
    skipped: dict[int, bytes] = field(default_factory=dict)

    @classmethod
    def generate(cls) -> "SenderKey":
        signing = KeyPair.generate()
        return cls(secrets.randbelow(2**31), Chain(secrets.token_bytes(32)), signing.public, signing.private)

    @classmethod
    def read(cls, distribution: bytes) -> "SenderKey":
        """Parse a sender key distribution message."""
        if distribution[:1] != VERSION:
            raise UndecryptableError("not a version 3 sender key")
        fields = protobuf.decode(distribution[1:])
        return cls(fields.number(1), Chain(fields.raw(3), fields.number(2)), fields.raw(4)[-32:])

    def distribution(self) -> bytes:
        """Return the sender key distribution message."""
        public = DJB + self.signing_public
        return VERSION + protobuf.encode({1: self.key_id, 2: self.chain.index, 3: self.chain.key, 4: public})

    def encrypt(self, plain: bytes) -> bytes:
        if self.signing_private is None:
            raise UndecryptableError("cannot encrypt with a received sender key")
        iteration = self.chain.index
        iv, key = _keys(self.chain.next())
        message = VERSION + protobuf.encode({1: self.key_id, 2: iteration, 3: cbc_encrypt(key, iv, plain)})
        return message + curve25519.sign(self.signing_private, message)

    def decrypt(self, raw: bytes) -> bytes:
        message, signature = raw[:-64], raw[-64:]
        if message[:1] != VERSION or not curve25519.verify(self.signing_public, message, signature):
            raise UndecryptableError("group message's signature is wrong")
        fields = protobuf.decode(message[1:])
        if fields.number(1) != self.key_id:
            raise UndecryptableError("another sender key was used")
        iv, key = _keys(self._key_at(fields.number(2)))
        return cbc_decrypt(key, iv, fields.raw(3))

    def _key_at(self, iteration: int) -> bytes:
        if iteration < self.chain.index:
            try:
                return self.skipped.pop(iteration)
            except KeyError:
                raise UndecryptableError("group message was decrypted before") from None
        if iteration - self.chain.index > _MAX_SKIP:
            raise UndecryptableError("too many skipped group messages")
        while self.chain.index < iteration:
            index = self.chain.index
            self.skipped[index] = self.chain.next()
        return self.chain.next()


def _keys(seed: bytes) -> tuple[bytes, bytes]:
    derived = curve25519.hkdf(seed, 64, salt=bytes(32), info=b"WhisperGroup")
    return derived[:16], derived[16:48]
