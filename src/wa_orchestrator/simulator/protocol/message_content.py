"""Message content: the protobuf inside the encryption."""

import struct
from dataclasses import dataclass, field, replace
from typing import Any

from wa_orchestrator.simulator.protocol import message_parts, protobuf
from wa_orchestrator.simulator.protocol.protobuf import ProtobufFields
from wa_orchestrator.simulator.whatsapp import media

CONVERSATION, SENDER_KEY, LOCATION, EXTENDED_TEXT, PROTOCOL, DEVICE_SENT, REACTION = 1, 2, 5, 6, 12, 31, 46
_CONTEXT, _EXPIRATION = 17, 25
_REVOKE, _EDIT = 0, 14
_SECRET_ENCRYPTED = 82
#: Wrappers of a message: view-once, disappearing, a document with caption, …
_WRAPPERS = (37, 40, 53, 55, 58, 59, 91)
_VIEW_ONCE = (37, 55, 59)


@dataclass(frozen=True, slots=True)
class _FileFields:
    """Field numbers of one kind of media message."""

    kind: str
    caption: int | None
    sha256: int
    length: int
    key: int
    blob_sha256: int
    path: int
    name: int | None = None


FILES = {
    3: _FileFields("image", 3, 4, 5, 8, 9, 11),
    9: _FileFields("video", 7, 3, 4, 6, 11, 13),
    8: _FileFields("audio", None, 3, 4, 7, 8, 9),
    7: _FileFields("document", 20, 4, 5, 7, 9, 10, name=8),
    26: _FileFields("sticker", None, 2, 9, 4, 3, 8),
}
_FIELD_OF_KIND = {layout.kind: number for number, layout in FILES.items()}


@dataclass(frozen=True, slots=True)
class FileRef:
    """Path and keys of a file."""

    kind: str
    mimetype: str
    path: str
    key: bytes
    sha256: bytes
    length: int
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """The visible content of a message."""

    kind: str
    text: str | None = None
    file: FileRef | None = None
    expires: int | None = None
    #: the attribute `edit` of its stanza: an edit, a deletion by its author, or one by an admin
    edit: str | None = None
    #: what else a phone shows of it (`message_parts`)
    parts: dict[str, Any] = field(default_factory=dict)


def unwrap(message: ProtobufFields) -> tuple[str | None, ProtobufFields]:
    """Unwrap a device-sent message, the copy for the sender's own devices: (chat, message)."""
    if DEVICE_SENT not in message:
        return None, message
    copy = message.message(DEVICE_SENT)
    return copy.text(1), copy.message(2)


def read(message: ProtobufFields) -> Content:
    """Return the content of a message; an unknown one has the kind `other`."""
    for wrapper in _WRAPPERS:
        if wrapper in message:
            inner = read(message.message(wrapper).message(1))
            return replace(inner, parts={**inner.parts, "view_once": True}) if wrapper in _VIEW_ONCE else inner
    found = _read(message)
    parts = message_parts.read(message)
    return replace(found, kind="voice" if parts.get("voice") else found.kind, parts=parts)


def _read(message: ProtobufFields) -> Content:
    if CONVERSATION in message:
        return Content("text", message.text(CONVERSATION))
    if EXTENDED_TEXT in message:
        body = message.message(EXTENDED_TEXT)
        return Content("text", body.text(1), expires=_expiry(body))
    for number, layout in FILES.items():
        if number in message:
            return _read_file(message.message(number), layout)
    if LOCATION in message:
        body = message.message(LOCATION)
        latitude, longitude = (struct.unpack("<d", body.raw(number) or bytes(8))[0] for number in (1, 2))
        return Content("location", f"{latitude},{longitude}", expires=_expiry(body))
    if message_parts.CARD in message or message_parts.CARDS in message:
        return Content("contacts")
    poll = message_parts.poll_field(message)
    if poll is not None:
        return Content("poll", message.message(poll).text(2))
    if REACTION in message:
        return Content("reaction", message.message(REACTION).text(2))
    if PROTOCOL in message:
        new = message_parts.edited(message)
        return Content("protocol", read(new).text if new else None, edit=_edit(message.message(PROTOCOL)))
    if _SECRET_ENCRYPTED in message:  # an edit, which a phone could open
        return Content("protocol", edit="1")
    return Content("sender_key" if SENDER_KEY in message else "other")


def _edit(body: ProtobufFields) -> str | None:
    if 1 not in body or body.number(2) not in (_REVOKE, _EDIT):
        return None
    own = body.message(1).number(2)
    return "1" if body.number(2) == _EDIT else "7" if own else "8"


def _read_file(body: ProtobufFields, layout: _FileFields) -> Content:
    file = FileRef(
        layout.kind,
        body.text(2) if layout.kind != "sticker" else body.text(5),
        body.text(layout.path),
        body.raw(layout.key),
        body.raw(layout.sha256),
        body.number(layout.length),
        body.text(layout.name) if layout.name else None,
    )
    caption = body.text(layout.caption) if layout.caption and layout.caption in body else None
    return Content(layout.kind, caption, file, _expiry(body))


def _expiry(body: ProtobufFields) -> int | None:
    seconds = body.message(_CONTEXT).number(_EXPIRATION) if _CONTEXT in body else 0
    return seconds or None


def text(words: str, expires: int | None = None) -> bytes:
    """Encode a text message."""
    if expires is None:
        return protobuf.encode({CONVERSATION: words})
    return protobuf.encode({EXTENDED_TEXT: {1: words, _CONTEXT: {_EXPIRATION: expires}}})


#: In an image, a video and a document.
_THUMBNAIL = 16


def file(
    sealed: media.EncryptedMedia,
    path: str,
    kind: str,
    mimetype: str,
    *,
    caption: str | None,
    name: str | None,
    now: int,
    voice: bool = False,
    thumbnail: bytes = b"",
) -> bytes:
    """Encode a media message. A voice note is an audio file that was recorded; sounds and stickers have no preview."""
    number = _FIELD_OF_KIND[kind]
    layout = FILES[number]
    timestamps = {"image": 12, "video": 14, "audio": 10, "document": 11, "sticker": 10}
    body: dict[int, int | str | bytes | None] = {
        1: f"https://{media.HOST}{path}",
        5 if kind == "sticker" else 2: mimetype,
        layout.sha256: sealed.plain_sha256,
        layout.length: sealed.length,
        layout.key: sealed.media_key,
        layout.blob_sha256: sealed.blob_sha256,
        layout.path: path,
        timestamps[kind]: now,
    }
    if layout.caption and caption:
        body[layout.caption] = caption
    if layout.name and name:
        body[layout.name] = name
    if voice:
        body |= {5: 3, 6: 1}
    if thumbnail and kind in ("image", "video", "document"):
        body[_THUMBNAIL] = thumbnail
    return protobuf.encode({number: body})


def device_sent(chat: str, message: bytes) -> bytes:
    """Encode the device-sent message for the sender's own devices."""
    return protobuf.encode({DEVICE_SENT: {1: chat, 2: message}})


def sender_key(group: str, distribution: bytes) -> bytes:
    """Encode a sender key distribution message."""
    return protobuf.encode({SENDER_KEY: {1: group, 2: distribution}})
