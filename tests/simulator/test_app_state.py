"""App state: the patch with the push name, verified as clients do."""

import hmac
import struct

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from wa_orchestrator.simulator.protocol import curve25519, protobuf
from wa_orchestrator.simulator.whatsapp import app_state
from wa_orchestrator.simulator.whatsapp.app_state import AppState


def test_a_client_can_check_and_open_the_patch_that_names_the_account() -> None:
    key_id, key = b"\0\0abcd", b"k" * 32
    patch = protobuf.decode(app_state.name_patch(key_id, key, "Dana", 1_700_000_000_000))
    derived = curve25519.hkdf(key, 160, info=b"WhatsApp Mutation Keys")
    record = patch.message(2).message(2)
    blob = record.message(2).raw(1)
    body, value_mac = blob[:-32], blob[-32:]
    expected = hmac.new(derived[64:96], b"\x01" + key_id + body + struct.pack(">Q", 7), "sha512").digest()[:32]
    assert value_mac == expected
    decryptor = Cipher(algorithms.AES(derived[32:64]), modes.CBC(body[:16])).decryptor()
    plain = decryptor.update(body[16:]) + decryptor.finalize()
    action = protobuf.decode(plain[: -plain[-1]])
    assert action.raw(1) == b'["setting_pushName"]'
    assert action.message(2).message(7).text(1) == "Dana"
    assert record.message(1).raw(1) == hmac.new(derived[:32], action.raw(1), "sha256").digest()
    tail = struct.pack(">Q", 1) + b"critical_block"
    addend = curve25519.hkdf(value_mac, 128, info=b"WhatsApp Patch Integrity")
    snapshot = hmac.new(derived[96:128], addend + tail, "sha256").digest()
    assert patch.raw(4) == snapshot
    assert patch.raw(5) == hmac.new(derived[128:], snapshot + value_mac + tail, "sha256").digest()


def test_the_hash_adds_each_16_bit_word_by_itself() -> None:
    full = b"\xff\xff" * 64
    addend = curve25519.hkdf(b"mac", 128, info=b"WhatsApp Patch Integrity")
    words = struct.unpack("<64H", addend)
    assert app_state.lt_hash(full, b"mac") == struct.pack("<64H", *((word - 1) % 65536 for word in words))


def test_the_version_of_a_collection_counts_its_patches() -> None:
    state = AppState(b"id", bytes(32))
    assert state.append("regular", b"") == 1
    assert state.append("regular", b"") == 2
    assert (state.version("regular"), len(state.since("regular", 1)), state.version("regular_low")) == (2, 1, 0)
    state.name_account("A", 0)
    state.name_account("B", 0)
    assert state.version("critical_block") == 1
