"""Linking a device by QR code or pairing code."""

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from wa_orchestrator.simulator.errors import ProtocolError, QueryRefusedError, SimulatorError
from wa_orchestrator.simulator.protocol import curve25519, jid, protobuf
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.protocol.curve25519 import KeyPair
from wa_orchestrator.simulator.protocol.protobuf import ProtobufFields
from wa_orchestrator.simulator.protocol.signal import DJB
from wa_orchestrator.simulator.whatsapp.accounts import Device, Phone
from wa_orchestrator.simulator.whatsapp.connection import Connection
from wa_orchestrator.simulator.whatsapp.state import ServerState, from_server

MAX_DEVICES = 4
_REFS = 6
_ANSWER_TIMEOUT_S = 15.0
HELLO_TIMEOUT_S = 3.0
#: For a pairing code the platform must be one of these, `Chrome (Ubuntu)`; a custom name is refused.
_SYSTEMS = {"Windows", "Mac OS", "Linux", "Ubuntu", "Fedora", "Android", "iOS"}
_ACCOUNT_PREFIX, _DEVICE_PREFIX = b"\x06\x00", b"\x06\x01"


def send_pair_device(state: ServerState, connection: Connection, payload: ProtobufFields) -> None:
    """Send the refs for QR codes to a client that wants to be linked."""
    keys = payload.message(19)
    if not curve25519.verify(keys.raw(3), DJB + keys.raw(5), keys.raw(6)):
        raise ProtocolError("the signed pre-key is not signed by the identity key")
    connection.registration = keys
    connection.refs = [f"2@{secrets.token_urlsafe(48)}" for _ in range(_REFS)]
    state.refs.update(dict.fromkeys(connection.refs, connection))
    refs = [node("ref", content=ref) for ref in connection.refs]
    attrs = {"type": "set", "xmlns": "md", "id": state.next_id()}
    connection.send(from_server("iq", attrs, [node("pair-device", content=refs)]))


def handle_disconnect(state: ServerState, connection: Connection) -> None:
    """Forget a client that has disconnected, and fail the pairing that waits for it."""
    for ref in connection.refs:
        state.refs.pop(ref, None)
    gone = SimulatorError("LINK_FAILED", "The device hung up instead of completing the link; show a new QR.")
    for outcome in (connection.linked, connection.finished):
        if outcome and not outcome.done():
            outcome.set_exception(gone)


async def scan(state: ServerState, phone: Phone, qr: str) -> None:
    """Scan a QR code with a phone. Returns when the device is linked. Raises SimulatorError if linking fails."""
    ref, noise_key, identity, adv = _read_qr(qr)
    connection = state.refs.get(ref)
    if connection is None or connection.ended or connection.registration is None:
        raise SimulatorError("QR_EXPIRED", "This QR code has expired; scan the current one.")
    if connection.client_static != noise_key or connection.registration.raw(3) != identity:
        raise SimulatorError("BAD_QR", "The keys in this QR code are not those of the device.")
    renewal = state.faults.active("companion_reg_refresh", phone.number)
    if renewal:
        state.faults.use(renewal)
        _renew_secret(state, connection, adv)
    if connection.unacked_refresh or adv in connection.retired_advs:
        raise SimulatorError("QR_RETIRED", "The secret in this QR code was replaced; scan the new one.")
    if _asks_passkey(state, connection, phone, adv):
        return
    spoiled = state.faults.active("bad_pairing", phone.number)
    if spoiled:
        state.faults.use(spoiled)
        adv = secrets.token_bytes(32)
    await send_pair_success(state, connection, phone, adv)


def _asks_passkey(state: ServerState, connection: Connection, phone: Phone, adv: bytes) -> bool:
    """Whether WhatsApp wants a passkey before this account links a device; then it is asked for."""
    from wa_orchestrator.simulator.whatsapp.stanzas import passkeys  # which completes the pairing here

    fault = state.faults.active("passkey", phone.number)
    if fault is None:
        return False
    state.faults.use(fault)
    passkeys.request(state, connection, phone, adv, fault)
    return True


def _renew_secret(state: ServerState, connection: Connection, adv: bytes) -> None:
    """Answer a scan by retiring the secret in the code. The device must ack, show another, and be scanned again."""
    notice = state.next_id()
    connection.unacked_refresh.add(notice)
    connection.retired_advs.add(adv)
    attrs = {"type": "companion_reg_refresh", "id": notice, "t": str(state.now)}
    connection.send(from_server("notification", attrs, [node("companion_reg_refresh")]))


def _read_qr(qr: str) -> tuple[str, bytes, bytes, bytes]:
    parts = qr.strip().rpartition("#")[2].split(",")
    try:
        decoded = [base64.b64decode(key, validate=True) for key in parts[1:4]]
    except (ValueError, binascii.Error):
        decoded = []
    if len(decoded) != 3 or any(len(key) != 32 for key in decoded):
        raise SimulatorError("BAD_QR", "This is not a QR code for linking a device.")
    return parts[0], decoded[0], decoded[1], decoded[2]


async def send_pair_success(state: ServerState, connection: Connection, phone: Phone, adv: bytes) -> None:
    """Send `pair-success`, signed by the phone, and wait until the device has signed too."""
    keys = connection.registration
    if keys is None or connection.candidate:
        raise SimulatorError("LINK_FAILED", "The device is already being linked; wait, or show a new QR code.")
    if len(phone.devices) >= MAX_DEVICES:
        raise SimulatorError("TOO_MANY_DEVICES", f"{MAX_DEVICES} devices are linked already; unlink one first.")
    number, phone.next_device = phone.next_device, phone.next_device + 1
    details = protobuf.encode({1: secrets.randbelow(2**31), 2: state.now, 3: number, 4: 0, 5: 0})
    signature = curve25519.sign(phone.identity.private, _ACCOUNT_PREFIX + details + keys.raw(3))
    signed = protobuf.encode({1: details, 2: phone.identity.public, 3: signature})
    box = protobuf.encode({1: signed, 2: curve25519.mac(adv, signed)})
    connection.candidate = _device(connection, keys, phone, number=number, details=details)
    connection.linked = asyncio.get_running_loop().create_future()
    attrs = {"type": "set", "xmlns": "md", "id": state.next_id(), "t": str(state.now)}
    content = [
        node("device-identity", content=box),
        node("platform", {"name": "android"}),
        node(
            "device", {"jid": str(jid.of_phone(phone.number, number)), "lid": str(jid.Jid(phone.lid, jid.LID, number))}
        ),
        node("client-props", content=protobuf.encode({1: phone.migrated})),
    ]
    connection.send(from_server("iq", attrs, [node("pair-success", content=content)]))
    try:
        await asyncio.wait_for(connection.linked, _ANSWER_TIMEOUT_S)
    except TimeoutError as error:
        raise SimulatorError("LINK_FAILED", "The device did not answer.") from error


def _device(connection: Connection, keys: ProtobufFields, phone: Phone, *, number: int, details: bytes) -> Device:
    return Device(
        phone.number,
        number,
        connection.client_static,
        keys.raw(3),
        int.from_bytes(keys.raw(1), "big"),
        details,
        signed_id=int.from_bytes(keys.raw(4), "big"),
        signed_key=keys.raw(5),
        signature=keys.raw(6),
        platform=protobuf.decode(keys.raw(8)).number(3),
        system=protobuf.decode(keys.raw(8)).text(1),
        linked_at=connection.state.clock(),
    )


def handle_refusal(connection: Connection, stanza: Node) -> None:
    """Handle a device's refusal of `pair-success`: its signature is not for that device."""
    error = stanza.child("error")
    if connection.candidate is None or error is None:
        return
    connection.candidate = None
    if connection.linked and not connection.linked.done():
        said = f"The device refused the pairing ({error.attr('code')} {error.attr('text')})."
        connection.linked.set_exception(SimulatorError("LINK_REFUSED", said))


def handle_pair_device_sign(state: ServerState, connection: Connection, stanza: Node) -> None:
    """Check the device's signature: it is linked now, and must log in again (515)."""
    device = connection.candidate
    if device is None:
        return
    phone = state.accounts.phone(device.phone)
    blob = stanza.require("pair-device-sign").child_bytes("device-identity")
    fields = protobuf.decode(blob)
    signed_over = _DEVICE_PREFIX + device.account_details + device.identity + phone.identity.public
    if not curve25519.verify(device.identity, signed_over, fields.raw(4)):
        raise ProtocolError("device's signature is wrong")
    # Others get the device identity with the account signature key filled in.
    device.device_identity = protobuf.encode(
        {1: fields.raw(1), 2: phone.identity.public, 3: fields.raw(3), 4: fields.raw(4)}
    )
    phone.devices[device.number] = device
    connection.candidate = None
    state.changed(phone.number)
    connection.end_with(node("stream:error", {"code": "515"}))
    if connection.linked and not connection.linked.done():
        connection.linked.set_result(None)


# ── the typed code ──────────────────────────────────────────────────────────────────────────────────────────────────


def handle_companion_hello(state: ServerState, connection: Connection, stanza: Node) -> Node:
    """Handle `companion_hello`: a device shows a pairing code for the phone `jid`."""
    request = stanza.require("link_code_companion_reg")
    address = jid.parse(request.attr("jid"))
    if address is None or connection.registration is None:
        raise ProtocolError("pairing code without a phone, or from a linked device")
    display = request.child("companion_platform_display")
    if display and not _SYSTEMS & set(display.data.decode("utf-8", "replace").strip(")").partition("(")[2].split(",")):
        raise QueryRefusedError(400, "bad-request")
    wrapped = request.child_bytes("link_code_pairing_wrapped_companion_ephemeral_pub")
    connection.code_for = (address.user, wrapped)
    connection.code_ref = secrets.token_bytes(16)
    state.code_asked.set()
    reply = node("link_code_companion_reg", {"stage": "companion_hello"})
    reply.content = [node("link_code_pairing_ref", content=connection.code_ref)]
    return reply


async def enter_code(state: ServerState, phone: Phone, code: str) -> None:
    """Enter a pairing code on a phone. Returns when the device is linked. Raises SimulatorError for a wrong code."""
    typed = code.replace("-", "").replace(" ", "").upper().encode()
    connection = await _connection_with_code(state, phone)
    wrapped = connection.code_for[1] if connection.code_for else b""
    companion = await asyncio.to_thread(_wrap, typed, wrapped[:32], wrapped[32:48], wrapped[48:80])
    if state.faults.active("foreign_hello", phone.number):
        _send_hello(state, connection, phone, secrets.token_bytes(16), secrets.token_bytes(80))
    repeat = state.faults.active("repeat_hello", phone.number)
    adv = b""
    for _ in range(1 + (repeat.extra.get("times", 1) if repeat else 0)):
        adv = await _exchange(state, connection, phone, typed, companion)
    if _asks_passkey(state, connection, phone, adv):
        return
    await send_pair_success(state, connection, phone, adv)


async def _exchange(state: ServerState, connection: Connection, phone: Phone, typed: bytes, companion: bytes) -> bytes:
    """Run the phone's step of a pairing by code once, and return the secret that both sides share then."""
    ephemeral, salt, iv = KeyPair.generate(), secrets.token_bytes(32), secrets.token_bytes(16)
    primary = salt + iv + await asyncio.to_thread(_wrap, typed, salt, iv, ephemeral.public)
    connection.code_keys = (phone.number, ephemeral, companion)
    connection.finished = asyncio.get_running_loop().create_future()
    _send_hello(state, connection, phone, connection.code_ref, primary)
    try:
        return await asyncio.wait_for(connection.finished, _ANSWER_TIMEOUT_S)
    except TimeoutError as error:
        raise SimulatorError("LINK_FAILED", "The device did not answer.") from error


def _send_hello(state: ServerState, connection: Connection, phone: Phone, ref: bytes, primary: bytes) -> None:
    content = [
        node("link_code_pairing_ref", content=ref),
        node("primary_identity_pub", content=phone.identity.public),
        node("link_code_pairing_wrapped_primary_ephemeral_pub", content=primary),
    ]
    attrs = {"type": "link_code_companion_reg", "id": state.next_id(), "t": str(state.now)}
    body = [node("link_code_companion_reg", {"stage": "primary_hello"}, content)]
    connection.send(from_server("notification", attrs, body))


async def _connection_with_code(state: ServerState, phone: Phone) -> Connection:
    """Return the connection that shows a code for this phone. Clients show it before they send it: wait."""
    try:
        async with asyncio.timeout(HELLO_TIMEOUT_S):
            while True:
                asking = [one for one in state.connections.values() if one.code_for and one.code_for[0] == phone.number]
                if asking:
                    return asking[-1]
                state.code_asked.clear()
                await state.code_asked.wait()
    except TimeoutError as error:
        text = "No device asked this phone for a code; ask for a new one."
        raise SimulatorError("NO_CODE_EXPECTED", text) from error


def handle_companion_finish(state: ServerState, connection: Connection, stanza: Node) -> None:
    """Handle `companion_finish`: the device has the code, and both sides share the ADV secret."""
    request = stanza.require("link_code_companion_reg")
    bundle = request.child_bytes("link_code_pairing_wrapped_key_bundle")
    if connection.code_keys is None or connection.finished is None or connection.finished.done():
        raise ProtocolError("no code was entered")
    if request.child_bytes("link_code_pairing_ref") != connection.code_ref:
        raise ProtocolError("the answer belongs to another code")
    number, ephemeral, companion = connection.code_keys
    phone = state.accounts.phone(number)
    try:
        shared = curve25519.dh(ephemeral.private, companion)
        key = curve25519.hkdf(shared, 32, salt=bundle[:32], info=b"link_code_pairing_key_bundle_encryption_key")
        opened = AESGCM(key).decrypt(bundle[32:44], bundle[44:], None)
    except (InvalidTag, ValueError):
        connection.finished.set_exception(SimulatorError("WRONG_CODE", "That is not the code shown; try again."))
        return
    identity, primary, random = opened[:32], opened[32:64], opened[64:]
    known = connection.registration.raw(3) if connection.registration else b""
    if not hmac.compare_digest(identity, known) or primary != phone.identity.public:
        raise ProtocolError("pairing code bundle has other keys")
    secret = shared + curve25519.dh(phone.identity.private, identity) + random
    connection.finished.set_result(curve25519.hkdf(secret, 32, info=b"adv_secret"))


def _wrap(code: bytes, salt: bytes, iv: bytes, key: bytes) -> bytes:
    """Encrypt or decrypt with AES-CTR under a PBKDF2 key of the code."""
    wrapping = hashlib.pbkdf2_hmac("sha256", code, salt, 131_072, 32)
    encryptor = Cipher(algorithms.AES(wrapping), modes.CTR(iv)).encryptor()
    return encryptor.update(key) + encryptor.finalize()
