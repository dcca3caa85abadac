"""The curve and its signatures, against the RFCs and against an independent verifier."""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.simulator.protocol import curve25519
from wa_orchestrator.simulator.protocol.curve25519 import KeyPair

keys = st.binary(min_size=32, max_size=32)


def test_x25519_agrees_with_rfc_7748() -> None:
    scalar = bytes.fromhex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4")
    point = bytes.fromhex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c")
    assert curve25519.dh(scalar, point).hex() == "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"
    bob = KeyPair.of(bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb"))
    assert bob.public.hex() == "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"


def test_hkdf_agrees_with_rfc_5869() -> None:
    with_salt = curve25519.hkdf(
        b"\x0b" * 22,
        42,
        salt=bytes.fromhex("000102030405060708090a0b0c"),
        info=bytes.fromhex("f0f1f2f3f4f5f6f7f8f9"),
    )
    assert with_salt.hex() == ("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865")
    without = curve25519.hkdf(b"\x0b" * 22, 42)
    assert without.hex() == "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"


@given(keys, keys)
def test_both_sides_of_an_agreement_get_the_same_secret(one: bytes, other: bytes) -> None:
    assert curve25519.dh(one, KeyPair.of(other).public) == curve25519.dh(other, KeyPair.of(one).public)


@given(keys, st.binary(max_size=200), st.binary(min_size=64, max_size=64))
def test_a_signature_is_a_plain_ed25519_signature_of_the_converted_key(
    private: bytes, message: bytes, nonce: bytes
) -> None:
    signature = curve25519.sign(private, message, nonce)
    u = int.from_bytes(KeyPair.of(private).public, "little")
    y = (u - 1) * pow(u + 1, -1, 2**255 - 19) % (2**255 - 19)
    Ed25519PublicKey.from_public_bytes(y.to_bytes(32, "little")).verify(signature, message)


@given(keys, st.binary(max_size=64), st.integers(0, 511))
def test_a_signature_with_one_wrong_bit_is_refused(private: bytes, message: bytes, bit: int) -> None:
    signature = bytearray(curve25519.sign(private, message))
    public = KeyPair.of(private).public
    assert curve25519.verify(public, message, bytes(signature))
    signature[bit // 8] ^= 1 << bit % 8
    assert not curve25519.verify(public, message, bytes(signature))
    assert not curve25519.verify(public, message + b"x", curve25519.sign(private, message))


def test_the_older_form_with_the_sign_in_the_last_bit_is_accepted() -> None:
    # Made by the JavaScript library that clients use: the Edwards key's sign is carried in bit 511.
    private = next(bytes([n]) * 32 for n in range(1, 50) if _sign_bit(bytes([n]) * 32))
    scalar = curve25519._clamped(private) % curve25519.Q
    public = curve25519._compress(curve25519._times_base(scalar))
    r = 123456789
    commitment = curve25519._compress(curve25519._times_base(r))
    s = (r + curve25519._digest_number(commitment, public, b"words") * scalar) % curve25519.Q
    older = bytearray(commitment + s.to_bytes(32, "little"))
    older[63] |= 0x80
    assert curve25519.verify(KeyPair.of(private).public, b"words", bytes(older))
    older[63] &= 0x7F
    assert not curve25519.verify(KeyPair.of(private).public, b"words", bytes(older))


def _sign_bit(private: bytes) -> int:
    return curve25519._compress(curve25519._times_base(curve25519._clamped(private)))[31] & 0x80


def test_a_signature_of_the_wrong_length_is_refused() -> None:
    assert not curve25519.verify(bytes(31), b"", bytes(64))
    assert not curve25519.verify(KeyPair.generate().public, b"", bytes(63))
    assert not curve25519.verify((2**255 - 20).to_bytes(32, "little"), b"", bytes(64))
