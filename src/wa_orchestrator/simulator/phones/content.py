"""Everything that a person can send from a phone besides files: one closed union, and its protobuf.

Field numbers are those of WhatsApp's `Message`; a person named in it is named as the receiving account names people.
"""

import base64
import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, assert_never

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from wa_orchestrator.simulator.errors import SimulatorError
from wa_orchestrator.simulator.protocol import curve25519, protobuf
from wa_orchestrator.simulator.protocol.protobuf import Layout

_CONTEXT_INFO, _MESSAGE_SECRET = 35, 3
_EDIT, _REVOKE = 14, 0
_POLLS = (49, 60, 64)
_SECRET_ENCRYPTED, _MESSAGE_EDIT = 82, 2


@dataclass(frozen=True, slots=True)
class Words:
    """A text: maybe a reply, which quotes a message, with mentions, forwarded, or with the preview of a page.

    `page` is that page's address, and `thumbnail` its picture in base64.
    """

    kind: Literal["text"]
    text: str
    quotes: str | None = None
    quoted_author: str | None = None
    quoted_text: str = ""
    mentions: list[str] = field(default_factory=list)
    forwarded: bool = False
    page: str | None = None
    page_title: str = ""
    thumbnail: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """A location, or the beginning of a live location."""

    kind: Literal["location", "live_location"]
    latitude: float
    longitude: float
    name: str | None = None
    address: str | None = None


@dataclass(frozen=True, slots=True)
class Cards:
    """Contact cards: names and numbers."""

    kind: Literal["contacts"]
    cards: dict[str, str]


@dataclass(frozen=True, slots=True)
class Poll:
    """A question with options."""

    kind: Literal["poll"]
    question: str
    options: list[str]
    selectable: int = 1


@dataclass(frozen=True, slots=True)
class Vote:
    """A vote in a poll of a phone."""

    kind: Literal["vote"]
    target: str
    options: list[str]


@dataclass(frozen=True, slots=True)
class Reaction:
    """An emoji on a message, '' to remove it; `own` if it is on one of the person's own."""

    kind: Literal["reaction"]
    target: str
    emoji: str
    own: bool = False


@dataclass(frozen=True, slots=True)
class Edit:
    """Another text for an earlier message of the same person; `sealed` under the secret of that message."""

    kind: Literal["edit"]
    target: str
    text: str
    own: bool = True
    sealed: bool = False


@dataclass(frozen=True, slots=True)
class Deletion:
    """Deletes a message for everyone: the person's own, or as an admin that of `author`."""

    kind: Literal["deletion"]
    target: str
    author: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The choice of a button, or of a row in a list."""

    kind: Literal["button_answer", "list_answer"]
    text: str
    choice: str


Content = Words | Place | Cards | Poll | Vote | Reaction | Edit | Deletion | Answer


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message that a phone has sent: its id, who made it, and its protobuf."""

    id: str
    creator: str
    message: bytes


@dataclass(frozen=True, slots=True)
class Chat:
    """Where a message goes: the chat's JID, how people are named there, and what was sent there."""

    address: str
    author: str
    name: Callable[[str], str]
    sent: Callable[[str], SentMessage | None]


def encode(content: Content, chat: Chat, now_ms: int) -> bytes:
    """Return the protobuf of a message."""
    return protobuf.encode(_layout(content, chat, now_ms))


def _layout(content: Content, chat: Chat, now_ms: int) -> Layout:
    match content:
        case Words():
            secret: Layout = {_MESSAGE_SECRET: secrets.token_bytes(32)}
            body: Layout = {1: content.text, **_preview(content), 17: _context(content, chat)}
            return {6: body, _CONTEXT_INFO: secret}
        case Place(kind="location"):
            return {5: {1: content.latitude, 2: content.longitude, 3: content.name, 4: content.address}}
        case Place():
            return {18: {1: content.latitude, 2: content.longitude, 6: content.name, 7: 1}}
        case Cards():
            cards: list[Layout] = [{1: name, 16: _vcard(name, phone)} for name, phone in content.cards.items()]
            return {4: cards[0]} if len(cards) == 1 else {13: {1: f"{len(cards)} contacts", 2: cards}}
        case Poll():
            options: list[Layout] = [{1: option} for option in content.options]
            poll: Layout = {2: content.question, 3: options, 4: content.selectable}
            return {64: poll, _CONTEXT_INFO: {_MESSAGE_SECRET: secrets.token_bytes(32)}}
        case Vote():
            return {50: _vote(content, chat, now_ms)}
        case Reaction():
            return {46: {1: _key(chat, content.target, own=content.own), 2: content.emoji, 4: now_ms}}
        case Edit(sealed=True):
            return {_SECRET_ENCRYPTED: _sealed_edit(content, chat)}
        case Edit():
            edited = {6: {1: content.text}}
            key = _key(chat, content.target, own=content.own)
            return {58: {1: {12: {1: key, 2: _EDIT, 14: edited, 15: now_ms}}}}
        case Deletion():
            return {12: {1: _key(chat, content.target, own=content.author is None, author=content.author), 2: _REVOKE}}
        case Answer(kind="button_answer"):
            return {43: {1: content.choice, 2: content.text, 4: 1}}
        case Answer():
            return {39: {1: content.text, 2: 1, 3: {1: content.choice}}}
    assert_never(content)


def is_poll(message: bytes) -> bool:
    """Whether a protobuf is that of a poll."""
    fields = protobuf.decode(message)
    return any(number in fields for number in _POLLS)


def in_album(message: bytes, parent: str, chat: str) -> bytes:
    """Return a file as a part of an album."""
    association: Layout = {1: 1, 2: {1: chat, 2: 1, 3: parent}}
    return protobuf.encode({91: {1: message}, _CONTEXT_INFO: {10: association}})


def album(images: int, videos: int) -> bytes:
    """Return the head of an album."""
    return protobuf.encode({83: {2: images, 3: videos}})


def view_once(message: bytes) -> bytes:
    """Return a file that can be opened once."""
    return protobuf.encode({55: {1: message}})


def _preview(content: Words) -> Layout:
    if content.page is None:
        return {}
    return {2: content.page, 6: content.page_title, 16: base64.b64decode(content.thumbnail)}


def _context(content: Words, chat: Chat) -> Layout | None:
    quoted: Layout | None = {1: content.quoted_text} if content.quotes else None
    context: Layout = {
        1: content.quotes,
        2: chat.name(content.quoted_author) if content.quoted_author else None,
        3: quoted,
        15: [chat.name(phone) for phone in content.mentions],
        21: 1 if content.forwarded else None,
        22: 1 if content.forwarded else None,
    }
    return context if content.quotes or content.mentions or content.forwarded else None


def _key(chat: Chat, target: str, *, own: bool, author: str | None = None) -> Layout:
    return {1: chat.address, 2: int(own), 3: target, 4: chat.name(author) if author else None}


def _vcard(name: str, phone: str) -> str:
    tel = f"TEL;type=CELL;type=VOICE;waid={phone}:+{phone}"
    return f"BEGIN:VCARD\nVERSION:3.0\nFN:{name}\n{tel}\nEND:VCARD"


def _sealed_edit(edit: Edit, chat: Chat) -> Layout:
    message = chat.sent(edit.target)
    if message is None:
        raise SimulatorError("NO_SUCH_MESSAGE", f"There is no message {edit.target}.")
    secret = protobuf.decode(message.message).message(_CONTEXT_INFO).raw(_MESSAGE_SECRET)
    author = chat.name(chat.author)
    key = curve25519.hkdf(secret, 32, info=f"{edit.target}{author}{author}Message Edit".encode())
    iv = secrets.token_bytes(12)
    sealed = AESGCM(key).encrypt(iv, protobuf.encode({6: {1: edit.text}}), None)
    return {1: _key(chat, edit.target, own=True), 2: sealed, 3: iv, 4: _MESSAGE_EDIT}


def _vote(vote: Vote, chat: Chat, now_ms: int) -> Layout:
    poll = chat.sent(vote.target)
    if poll is None or not is_poll(poll.message):
        raise SimulatorError("NO_SUCH_POLL", f"There is no poll {vote.target}.")
    secret = protobuf.decode(poll.message).message(_CONTEXT_INFO).raw(_MESSAGE_SECRET)
    creator, voter = chat.name(poll.creator), chat.name(chat.author)
    sign = b"".join([poll.id.encode(), creator.encode(), voter.encode(), b"Poll Vote", b"\x01"])
    key = curve25519.mac(curve25519.mac(bytes(32), secret), sign)
    plain = protobuf.encode({1: [hashlib.sha256(option.encode()).digest() for option in vote.options]})
    iv = secrets.token_bytes(12)
    sealed = AESGCM(key).encrypt(iv, plain, f"{poll.id}\0{voter}".encode())
    target: Layout = {1: chat.address, 2: int(poll.creator == chat.author), 3: poll.id}
    return {1: target, 2: {1: sealed, 2: iv}, 4: now_ms}
