"""X25519, XEdDSA signatures, HKDF and HMAC."""

import hashlib
import hmac
import os
from dataclasses import dataclass
from functools import cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

P = 2**255 - 19
Q = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P

#: A point in extended twisted Edwards coordinates (X, Y, Z, T).
Point = tuple[int, int, int, int]
NEUTRAL: Point = (0, 1, 1, 0)
_BASE_Y = 4 * pow(5, -1, P) % P
_BASE_X = 15112221349535400772501151409588531511454012693041857206046113283949847762202
BASE: Point = (_BASE_X, _BASE_Y, 1, _BASE_X * _BASE_Y % P)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """An X25519 key pair, both halves as 32 raw bytes."""

    private: bytes
    public: bytes

    @classmethod
    def of(cls, private: bytes) -> "KeyPair":
        return cls(private, X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw())

    @classmethod
    def generate(cls) -> "KeyPair":
        return cls.of(os.urandom(32))


def dh(private: bytes, public: bytes) -> bytes:
    """Return the X25519 shared secret. Raises ValueError for an invalid public key."""
    return X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))


def hkdf(secret: bytes, length: int, *, salt: bytes = b"", info: bytes = b"") -> bytes:
    """HKDF-SHA256; an empty salt means 32 zero bytes (RFC 5869)."""
    return HKDF(algorithm=hashes.SHA256(), length=length, salt=salt or None, info=info).derive(secret)


def mac(key: bytes, *parts: bytes) -> bytes:
    """HMAC-SHA256 over the parts joined."""
    return hmac.digest(key, b"".join(parts), "sha256")


def sign(private: bytes, message: bytes, nonce: bytes | None = None) -> bytes:
    """Sign with an X25519 private key by XEdDSA; `nonce` (64 bytes) is for tests only."""
    scalar = _clamped(private)
    public = _compress(_times_base(scalar))
    if public[31] & 0x80:
        scalar = Q - scalar % Q
        public = public[:31] + bytes([public[31] & 0x7F])
    scalar %= Q
    prefix = b"\xfe" + b"\xff" * 31
    r = _digest_number(prefix, scalar.to_bytes(32, "little"), message, nonce or os.urandom(64)) % Q
    commitment = _compress(_times_base(r))
    s = (r + _digest_number(commitment, public, message) * scalar) % Q
    return commitment + s.to_bytes(32, "little")


def verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """Check an XEdDSA signature; the older form with the sign in the last bit is accepted too."""
    if len(public) != 32 or len(signature) != 64:
        return False
    u = int.from_bytes(public, "little") & (2**255 - 1)
    if (u + 1) % P == 0:
        return False
    y = (u - 1) * pow(u + 1, -1, P) % P
    edwards = bytearray(y.to_bytes(32, "little"))
    edwards[31] |= signature[63] & 0x80
    plain = signature[:63] + bytes([signature[63] & 0x7F])
    try:
        Ed25519PublicKey.from_public_bytes(bytes(edwards)).verify(plain, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _clamped(private: bytes) -> int:
    number = int.from_bytes(private, "little")
    return (number & ~7 & (2**255 - 1)) | 2**254


def _digest_number(*parts: bytes) -> int:
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little")


def _add(p: Point, q: Point) -> Point:
    a = (p[1] - p[0]) * (q[1] - q[0]) % P
    b = (p[1] + p[0]) * (q[1] + q[0]) % P
    c = 2 * p[3] * q[3] * D % P
    d = 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % P, g * h % P, f * g % P, e * h % P)


@cache
def _base_table() -> tuple[tuple[Point, ...], ...]:
    """Multiples of the base point, 16 for each of 64 nibbles: a signature then costs 64 additions, well under 1 ms."""
    rows = []
    step = BASE
    for _ in range(64):
        row = [NEUTRAL]
        for _ in range(15):
            row.append(_add(row[-1], step))
        rows.append(tuple(row))
        step = _add(row[-1], step)
    return tuple(rows)


def _times_base(scalar: int) -> Point:
    point = NEUTRAL
    for row in _base_table():
        point = _add(point, row[scalar & 15])
        scalar >>= 4
    return point


def _compress(point: Point) -> bytes:
    inverse = pow(point[2], -1, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")
