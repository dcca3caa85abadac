"""What happens inside a simulated phone: sessions, encrypting for devices, decrypting what devices sent."""

import secrets

from wa_orchestrator.simulator.protocol import protobuf, signal
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.protocol.protobuf import Fields
from wa_orchestrator.simulator.protocol.sender_keys import SenderKey
from wa_orchestrator.simulator.protocol.signal import Bundle, PreKeyMessage, Session, UndecryptableError
from wa_orchestrator.simulator.whatsapp.accounts import SIGNED_ID, Device, Phone

Peer = tuple[str, int]


def encrypt_for(phone: Phone, device: Device, message: bytes, count: int | None = None) -> Node:
    """Encrypt a message for a linked device; a session is begun with its published keys if there is none."""
    peer = (device.phone, device.number)
    known = phone.sessions.get(peer)
    session = known[0] if known else begin(phone, peer, device.take_bundle())
    kind, sealed = session.encrypt(signal.pad(message, secrets.randbelow(16) + 1))
    return node("enc", {"v": "2", "type": kind, "count": count}, sealed)


def begin(phone: Phone, peer: Peer, bundle: Bundle) -> Session:
    """Begin a session and use it from now on."""
    session = Session.initiate(phone.identity, phone.registration, bundle)
    phone.keep(peer, session)
    return session


def decrypt(phone: Phone, peer: Peer, enc: Node) -> Fields:
    """Decrypt what a device sent to this phone. Raises UndecryptableError if the phone lacks the key."""
    kind = enc.attr("type")
    if kind == "pkmsg":
        padded = _decrypt_greeting(phone, peer, enc.data)
    elif kind == "msg":
        padded = _decrypt_in_session(phone, peer, enc.data)
    else:
        raise UndecryptableError(f"an unknown kind of encryption: {kind!r}")
    return protobuf.decode(signal.unpad(padded))


def _decrypt_greeting(phone: Phone, peer: Peer, raw: bytes) -> bytes:
    greeting = PreKeyMessage.read(raw)
    for session in phone.sessions.get(peer, []):
        if session.base_key == greeting.base_key:
            return session.decrypt(greeting.message)
    if greeting.signed_id != SIGNED_ID:
        raise UndecryptableError("an unknown signed pre-key")
    prekey = None if greeting.prekey_id is None else phone.key_of_prekey(greeting.prekey_id)
    try:
        session = Session.respond(phone.identity, phone.signed, prekey, greeting)
    except ValueError as error:
        raise UndecryptableError("not a public key") from error
    plain = session.decrypt(greeting.message)
    phone.keep(peer, session)
    return plain


def _decrypt_in_session(phone: Phone, peer: Peer, raw: bytes) -> bytes:
    for session in list(phone.sessions.get(peer, [])):
        try:
            plain = session.decrypt(raw)
        except UndecryptableError:
            continue
        phone.keep(peer, session)
        return plain
    raise UndecryptableError("no session fits")


def learn_sender_key(phone: Phone, peer: Peer, message: Fields) -> None:
    """Keep the sender key that a message hands out, if it does."""
    if 2 in message:
        handed = message.message(2)
        phone.sender_keys[handed.text(1), *peer] = SenderKey.read(handed.raw(2))


def decrypt_group(phone: Phone, group: str, peer: Peer, raw: bytes) -> Fields:
    """Decrypt a group message. Raises UndecryptableError if its sender key never came."""
    key = phone.sender_keys.get((group, *peer))
    if key is None:
        raise UndecryptableError("no sender key")
    return protobuf.decode(signal.unpad(key.decrypt(raw)))


def encrypt_group(phone: Phone, group: str, message: bytes) -> tuple[bytes, bytes, set[Peer]]:
    """Encrypt for a group: (message, the key to hand to those who lack it, who has it already)."""
    if group not in phone.own_sender_keys:
        phone.own_sender_keys[group] = (SenderKey.generate(), set())
    key, holders = phone.own_sender_keys[group]
    distribution = key.distribution()  # taken before the message, so that who gets it can read this one
    return key.encrypt(signal.pad(message, secrets.randbelow(16) + 1)), distribution, holders
