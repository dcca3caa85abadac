"""Linking a device with a passkey: request, assertion, continuation, and the encrypted pairing request."""

import asyncio
import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from wa_orchestrator.simulator.errors import ProtocolError, QueryRefusedError
from wa_orchestrator.simulator.protocol import curve25519, passkey, protobuf
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.protocol.curve25519 import KeyPair
from wa_orchestrator.simulator.whatsapp.accounts import Phone
from wa_orchestrator.simulator.whatsapp.connection import Connection
from wa_orchestrator.simulator.whatsapp.faults import Fault
from wa_orchestrator.simulator.whatsapp.stanzas import pairing
from wa_orchestrator.simulator.whatsapp.state import ServerState, from_server

_HANDOFF_S, _CHALLENGE_S = 300, 600
#: A field that is longer than what follows.
_NO_PROTOBUF = b"\x0a\x7f\x00"
_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTVWXYZ"


@dataclass(slots=True)
class Ceremony:
    """One linking by passkey, from the scan to the pairing."""

    phone: Phone
    prior_adv: bytes
    fault: Fault
    since: float
    challenges: dict[str, float] = field(default_factory=dict)
    ref: str = ""
    identity: bytes = b""
    commitment: bytes = b""
    key: KeyPair | None = None
    nonce: bytes = b""
    #: the companion proved that it is the one whose code was scanned, so nobody need compare codes
    is_proven: bool = False
    #: what the phone shows
    code: str = ""
    is_confirmed: bool = False


def request(state: ServerState, connection: Connection, phone: Phone, adv: bytes, fault: Fault) -> None:
    """Ask for a passkey instead of completing the link."""
    made = connection.ceremony = Ceremony(phone, adv, fault, state.clock())
    if fault.extra.get("old_proof"):
        made.since -= _HANDOFF_S + 1
    send_request(state, connection)
    if fault.extra.get("stale_challenge"):
        made.challenges = {each: at - _CHALLENGE_S for each, at in made.challenges.items()}
    if fault.extra.get("twice"):
        send_request(state, connection)


def send_request(state: ServerState, connection: Connection) -> None:
    made = _of(connection)
    attrs = {"type": "passkey_prologue_request", "id": state.next_id(), "t": str(state.now)}
    content = [] if made.fault.extra.get("no_options") else [_options(state, made)]
    connection.unacked_refresh.add(attrs["id"])
    connection.send(from_server("notification", attrs, content or None))


def _of(connection: Connection) -> Ceremony:
    if connection.ceremony is None:
        raise QueryRefusedError(400, "bad-request")
    return connection.ceremony


def _options(state: ServerState, made: Ceremony) -> Node:
    challenge = passkey.encode(secrets.token_bytes(32))
    made.challenges[challenge] = state.clock()
    options = {
        "challenge": challenge, "timeout": 600_000, "rpId": passkey.RP_ID, "allowCredentials": [],
        "userVerification": "required", "extensions": {"uvm": True},
    }  # fmt: skip
    return node("passkey_request_options", content=json.dumps(options, separators=(",", ":")))


def answer(state: ServerState, connection: Connection, stanza: Node) -> list[Node] | None:
    """Answer an iq of the ceremony; None for any other."""
    if stanza.child("passkey_request_options"):
        return [_options(state, _of(connection))]
    if stanza.attr("type") == "get" and stanza.child("ref"):
        _of(connection).ref = f"2@{secrets.token_urlsafe(24)}"
        return [node("ref", content=_of(connection).ref)]
    if prologue := stanza.child("passkey_prologue"):
        _check_prologue(state, connection, prologue)
        return []
    if (nonce := stanza.child("companion_nonce")) is not None:
        _check_nonce(_of(connection), nonce.data)
        return []
    if (sealed := stanza.child("encrypted_pairing_request")) is not None:
        connection.passkey_adv = _open(connection, _of(connection), sealed.data)
        return []
    return None


def follow(state: ServerState, connection: Connection, stanza: Node) -> None:
    """Do what follows an iq that was answered."""
    made = connection.ceremony
    if made is None:
        return
    if stanza.child("passkey_prologue"):
        _continue(state, connection, made)
    if stanza.child("encrypted_pairing_request") is not None and connection.passkey_adv:
        adv = made.prior_adv if made.fault.extra.get("old_secret") else connection.passkey_adv
        connection.passkey_adv = b""
        linking = asyncio.ensure_future(pairing.send_pair_success(state, connection, made.phone, adv))
        linking.add_done_callback(lambda task: task.cancelled() or task.exception())


def _check_prologue(state: ServerState, connection: Connection, stanza: Node) -> None:
    made = _of(connection)
    if made.fault.extra.get("refuse"):
        made.fault.extra["refuse"] -= 1
        raise QueryRefusedError(400, "bad-request")
    assertion = json.loads(stanza.child_bytes("webauthn_assertion"))
    try:
        challenge = str(json.loads(passkey.decode(assertion["response"]["clientDataJSON"])).get("challenge"))
    except (AttributeError, KeyError, TypeError) as error:
        raise QueryRefusedError(400, "bad-request") from error
    issued = made.challenges.pop(challenge, None)
    is_fresh = issued is not None and state.clock() - issued < _CHALLENGE_S
    if not is_fresh or not passkey.is_valid(
        made.phone.passkey, stanza.child_bytes("credential_id"), assertion, challenge
    ):
        raise QueryRefusedError(401, "not-authorized")
    payload = stanza.child_bytes("prologue_payload")
    fields = protobuf.decode(payload)
    identity = protobuf.decode(fields.raw(1))
    registered = connection.registration
    platform = protobuf.decode(registered.raw(8)).number(3) if registered else 0
    if len(identity.raw(1)) != 32 or identity.text(3) != made.ref or identity.number(2) != platform:
        raise QueryRefusedError(400, "bad-request")
    made.identity, made.commitment = fields.raw(1), fields.message(2).raw(1)
    proof = stanza.child("pairing_handoff_proof")
    if proof is not None:
        key = curve25519.hkdf(made.prior_adv, 32, info=b"shortcake-passkey-handoff-v1")
        is_right = hmac.compare_digest(proof.data, hmac.digest(key, payload, "sha256"))
        if not is_right or state.clock() - made.since > _HANDOFF_S:
            raise QueryRefusedError(400, "bad-request")
    made.is_proven = proof is not None and not made.fault.extra.get("compare")


def _continue(state: ServerState, connection: Connection, made: Ceremony) -> None:
    fault = made.fault.extra
    if fault.get("twice_after"):
        send_request(state, connection)
    if fault.get("no_continuation"):
        return
    if fault.get("drop"):
        connection.abort()
        return
    made.key, made.nonce = KeyPair.generate(), secrets.token_bytes(32)
    nonce = made.nonce[:31] if fault.get("short_nonce") else made.nonce
    tag = "surprise" if fault.get("unknown_child") else "primary_ephemeral_identity"
    attrs = {"type": "crsc_continuation", "id": state.next_id(), "t": str(state.now)}
    part = _NO_PROTOBUF if fault.get("garbage") else protobuf.encode({1: made.key.public, 2: nonce})
    stanza = from_server("notification", attrs, [node(tag, content=part)])
    if fault.get("foreign"):
        stanza.attrs["from"] = str(made.phone.address)
    connection.send(stanza)


def _check_nonce(made: Ceremony, nonce: bytes) -> None:
    if len(nonce) != 32 or hashlib.sha256(made.identity + nonce).digest() != made.commitment or made.key is None:
        raise QueryRefusedError(400, "bad-request")
    mixed = hashlib.sha256(nonce + made.key.public).digest()
    number = int.from_bytes(bytes(a ^ b for a, b in zip(made.nonce[:5], mixed[:5], strict=True)), "big")
    letters = "".join(_ALPHABET[number >> shift & 31] for shift in range(35, -1, -5))
    made.code = f"{letters[:4]}-{letters[4:]}"


def _open(connection: Connection, made: Ceremony, raw: bytes) -> bytes:
    """Decrypt the pairing request and return the new secret in it."""
    if made.key is None or not (made.is_proven or made.is_confirmed):
        raise QueryRefusedError(400, "bad-request")
    sealed, identity = protobuf.decode(raw), protobuf.decode(made.identity)
    salt = f"Companion Pairing {identity.number(2)} with ref {made.ref}".encode()
    shared = curve25519.dh(made.key.private, identity.raw(1))
    key = curve25519.hkdf(shared, 32, salt=salt, info=b"Pairing Information Encryption Key")
    try:
        opened = protobuf.decode(AESGCM(key).decrypt(sealed.raw(2), sealed.raw(1), None))
    except (InvalidTag, ValueError) as error:
        raise ProtocolError("the pairing request cannot be decrypted") from error
    known = connection.registration.raw(3) if connection.registration else b""
    secret = opened.raw(3)
    if opened.raw(1) != connection.client_static or opened.raw(2) != known:
        raise ProtocolError("the pairing request has other keys")
    if len(secret) != 32 or secret == made.prior_adv:
        raise ProtocolError("the pairing request has no new secret")
    return secret
