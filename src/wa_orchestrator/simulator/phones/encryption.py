"""Encryption of a simulated phone: Signal sessions and sender keys."""

import secrets

from wa_orchestrator.simulator.protocol import protobuf, signal
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.protocol.protobuf import ProtobufFields
from wa_orchestrator.simulator.protocol.sender_keys import SenderKey
from wa_orchestrator.simulator.protocol.signal import PreKeyBundle, PreKeyMessage, SignalSession, UndecryptableError
from wa_orchestrator.simulator.whatsapp.accounts import SIGNED_ID, Device, Phone

Peer = tuple[str, int]


def encrypt_for(phone: Phone, device: Device, message: bytes, count: int | None = None) -> Node:
    """Encrypt a message for a linked device; a session is started with its pre-key bundle if there is none."""
    peer = (device.phone, device.number)
    known = phone.sessions.get(peer)
    session = known[0] if known else start_session(phone, peer, device.take_prekey_bundle())
    kind, sealed = session.encrypt(signal.pad(message, secrets.randbelow(16) + 1))
    return node("enc", {"v": "2", "type": kind, "count": count}, sealed)


def spoil(enc: Node) -> Node:
    """Return a ciphertext that nobody can decrypt: its MAC is wrong."""
    return Node(enc.tag, enc.attrs, enc.data[:-1] + bytes([enc.data[-1] ^ 1]))


def start_session(phone: Phone, peer: Peer, bundle: PreKeyBundle) -> SignalSession:
    """Start a session and use it from now on."""
    session = SignalSession.initiate(phone.identity, phone.registration, bundle)
    phone.add_session(peer, session)
    return session


def decrypt(phone: Phone, peer: Peer, enc: Node) -> ProtobufFields:
    """Decrypt a message of a device. Raises UndecryptableError if the phone has no matching key."""
    kind = enc.attr("type")
    if kind == "pkmsg":
        padded = _decrypt_prekey_message(phone, peer, enc.data)
    elif kind == "msg":
        padded = _decrypt_in_session(phone, peer, enc.data)
    else:
        raise UndecryptableError(f"unknown encryption type {kind!r}")
    return protobuf.decode(signal.unpad(padded))


def _decrypt_prekey_message(phone: Phone, peer: Peer, raw: bytes) -> bytes:
    prekey_message = PreKeyMessage.read(raw)
    for session in phone.sessions.get(peer, []):
        if session.base_key == prekey_message.base_key:
            return session.decrypt(prekey_message.message)
    if prekey_message.signed_id != SIGNED_ID:
        raise UndecryptableError("unknown signed pre-key")
    prekey = None if prekey_message.prekey_id is None else phone.key_of_prekey(prekey_message.prekey_id)
    try:
        session = SignalSession.respond(phone.identity, phone.signed, prekey, prekey_message)
    except ValueError as error:
        raise UndecryptableError("not a public key") from error
    plain = session.decrypt(prekey_message.message)
    phone.add_session(peer, session)
    return plain


def _decrypt_in_session(phone: Phone, peer: Peer, raw: bytes) -> bytes:
    for session in list(phone.sessions.get(peer, [])):
        try:
            plain = session.decrypt(raw)
        except UndecryptableError:
            continue
        phone.add_session(peer, session)
        return plain
    raise UndecryptableError("no matching session")


def store_sender_key(phone: Phone, peer: Peer, message: ProtobufFields) -> None:
    """Store the sender key that a message distributes, if it does."""
    if 2 in message:
        handed = message.message(2)
        phone.sender_keys[handed.text(1), *peer] = SenderKey.read(handed.raw(2))


def decrypt_group(phone: Phone, group: str, peer: Peer, raw: bytes) -> ProtobufFields:
    """Decrypt a group message. Raises UndecryptableError without its sender key."""
    key = phone.sender_keys.get((group, *peer))
    if key is None:
        raise UndecryptableError("no sender key")
    return protobuf.decode(signal.unpad(key.decrypt(raw)))


def encrypt_group(phone: Phone, group: str, message: bytes) -> tuple[bytes, bytes, set[Peer]]:
    """Encrypt for a group: (message, sender key distribution, devices that have the key already)."""
    if group not in phone.own_sender_keys:
        phone.own_sender_keys[group] = (SenderKey.generate(), set())
    key, holders = phone.own_sender_keys[group]
    distribution = key.distribution()  # before the message, so that new recipients can decrypt this one
    return key.encrypt(signal.pad(message, secrets.randbelow(16) + 1)), distribution, holders
