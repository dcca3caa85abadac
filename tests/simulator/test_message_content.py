"""Message content."""

import struct

from wa_orchestrator.simulator.protocol import message_content, protobuf
from wa_orchestrator.simulator.whatsapp import media


def read(raw: bytes) -> message_content.Content:
    return message_content.read(protobuf.decode(raw))


def test_a_text_is_decoded_in_every_wrapper() -> None:
    plain = message_content.text("words")
    assert read(plain) == message_content.Content("text", "words")
    assert read(message_content.text("soon gone", 86_400)) == message_content.Content(
        "text", "soon gone", expires=86_400
    )
    assert read(protobuf.encode({40: {1: plain}})).text == "words"
    chat, inner = message_content.unwrap(protobuf.decode(message_content.device_sent("1@s.whatsapp.net", plain)))
    assert (chat, message_content.read(inner).text) == ("1@s.whatsapp.net", "words")


def test_media_of_every_kind_is_decoded_as_encoded() -> None:
    for kind in ("image", "video", "audio", "document", "sticker"):
        sealed = media.encrypt(b"data", kind)
        raw = message_content.file(sealed, "/v/x?ccb=1", kind, "a/b", caption="see", name="file.pdf", now=1)
        got = read(raw)
        assert got.file is not None
        assert (got.kind, got.file.mimetype, got.file.path, got.file.key) == (
            kind,
            "a/b",
            "/v/x?ccb=1",
            sealed.media_key,
        )
        assert (got.file.sha256, got.file.length) == (sealed.plain_sha256, 4)
        assert got.text == ("see" if kind in ("image", "video", "document") else None)
        assert got.file.name == ("file.pdf" if kind == "document" else None)


def test_locations_reactions_and_unknown_messages_are_distinguished() -> None:
    place = bytes([0x2A, 18, 0x09]) + struct.pack("<d", 32.5) + b"\x11" + struct.pack("<d", 34.75)
    assert read(place) == message_content.Content("location", "32.5,34.75")
    assert read(protobuf.encode({46: {2: "👍"}})) == message_content.Content("reaction", "👍")
    assert read(message_content.sender_key("g", b"x")).kind == "sender_key"
    assert read(protobuf.encode({12: {2: 5}})).kind == "protocol"
    assert read(protobuf.encode({99: "?"})).kind == "other"
