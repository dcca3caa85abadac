"""Encryption and storage of media."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.simulator.errors import ProtocolError
from wa_orchestrator.simulator.whatsapp import media


@given(st.binary(max_size=500), st.sampled_from(sorted(media.PURPOSES)))
def test_an_encrypted_file_decrypts_with_its_key(plain: bytes, kind: str) -> None:
    sealed = media.encrypt(plain, kind)
    assert media.decrypt(sealed.blob, kind, sealed.media_key, hashlib.sha256(plain).digest()) == plain


def test_an_altered_file_another_key_and_another_kind_are_refused() -> None:
    sealed = media.encrypt(b"a picture", "image")
    altered = bytes([sealed.blob[0] ^ 1]) + sealed.blob[1:]
    for blob, kind, key in (
        (altered, "image", sealed.media_key),
        (sealed.blob, "image", bytes(32)),
        (sealed.blob, "video", sealed.media_key),
    ):
        with pytest.raises(ProtocolError):
            media.decrypt(blob, kind, key)
    with pytest.raises(ProtocolError):
        media.decrypt(sealed.blob, "image", sealed.media_key, bytes(32))


def test_a_blob_is_found_by_its_path_and_the_oldest_are_dropped() -> None:
    shelf = media.MediaStore(limit_bytes=25)
    first, second = shelf.put(b"a" * 10), shelf.put(b"b" * 10)
    assert "?" in first
    assert shelf.put(b"a" * 10) == first
    assert shelf.get(f"{first}&hash=x") == b"a" * 10
    shelf.put(b"c" * 10)
    assert shelf.get(first) is None
    assert shelf.get(second) == b"b" * 10
