"""Pre-keys on the server: uploaded by a device, fetched by others to start a session."""

from wa_orchestrator.simulator.errors import ProtocolError, QueryRefusedError
from wa_orchestrator.simulator.protocol import curve25519, jid
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.protocol.signal import DJB, PreKeyBundle
from wa_orchestrator.simulator.whatsapp import app_state
from wa_orchestrator.simulator.whatsapp.accounts import Device
from wa_orchestrator.simulator.whatsapp.connection import Connection
from wa_orchestrator.simulator.whatsapp.stanzas import usync
from wa_orchestrator.simulator.whatsapp.state import ServerState, from_server

_LOW = 5


def handle_get(state: ServerState, connection: Connection, stanza: Node) -> list[Node]:
    """Answer a query about keys."""
    device = _own(connection)
    if stanza.child("count"):
        return [node("count", {"value": len(device.prekeys)})]
    if stanza.child("digest"):
        return [_digest(device)]
    wanted = stanza.require("key").children("user")
    return [node("list", content=[_bundle(state, user.attr("jid")) for user in wanted])]


def handle_set(state: ServerState, connection: Connection, stanza: Node) -> list[Node]:
    """Store uploaded keys, all or none. Raises ProtocolError if one is malformed or the signature is wrong."""
    device = _own(connection)
    rotation = stanza.child("rotate")
    _keep_signed(device, (rotation or stanza).require("skey"))
    if rotation is None:
        if stanza.child_bytes("identity") != device.identity:
            raise ProtocolError("uploaded keys belong to another identity")
        keys = [(key.child_bytes("id"), key.child_bytes("value")) for key in stanza.require("list").children("key")]
        if any(len(number) != 3 or len(value) != 32 for number, value in keys):
            raise ProtocolError("a pre-key has a number of 3 bytes and a value of 32")
        device.registration = int.from_bytes(stanza.child_bytes("registration"), "big")
        device.prekeys.update((int.from_bytes(number, "big"), value) for number, value in keys)
    state.changed(device.phone)
    return []


def _keep_signed(device: Device, skey: Node) -> None:
    value, signature = skey.child_bytes("value"), skey.child_bytes("signature")
    if not curve25519.verify(device.identity, DJB + value, signature):
        raise ProtocolError("signature of the signed pre-key is wrong")
    device.signed_id = int.from_bytes(skey.child_bytes("id"), "big")
    device.signed_key, device.signature = value, signature


def _own(connection: Connection) -> Device:
    if connection.device is None:
        raise ProtocolError("only linked devices have keys")
    return connection.device


def _digest(device: Device) -> Node:
    ids = list(device.prekeys)
    parts = [device.identity, device.signed_key, device.signature, *device.prekeys.values()]
    return node(
        "digest",
        content=[
            node("registration", content=device.registration.to_bytes(4, "big")),
            node("type", content=DJB),
            node("identity", content=device.identity),
            _skey(device.signed_id, device.signed_key, device.signature),
            node("list", content=[node("id", content=number.to_bytes(3, "big")) for number in ids]),
            node("hash", content=app_state.digest_of_keys(*parts)),
        ],
    )


def _skey(number: int, value: bytes, signature: bytes) -> Node:
    content = [
        node("id", content=number.to_bytes(3, "big")),
        node("value", content=value),
        node("signature", content=signature),
    ]
    return node("skey", content=content)


def _bundle(state: ServerState, wanted: str) -> Node:
    address = jid.parse(wanted)
    phone = state.accounts.find(address) if address else None
    if address is None or phone is None:
        return node("user", {"jid": wanted}, [node("error", {"code": "404", "text": "item-not-found"})])
    if not address.device:
        return node("user", {"jid": wanted}, _keys(phone.take_prekey_bundle()))
    if address.device == usync.DEAD_DEVICE:
        raise QueryRefusedError(406, "not-acceptable")
    device = phone.devices.get(address.device)
    if device is None or not device.signed_key:
        return node("user", {"jid": wanted}, [node("error", {"code": "404", "text": "item-not-found"})])
    content = _keys(device.take_prekey_bundle())
    state.changed(phone.number)
    notify_if_low(state, device)
    return node("user", {"jid": wanted}, [*content, node("device-identity", content=device.device_identity)])


def _keys(bundle: PreKeyBundle) -> list[Node]:
    content = [
        node("registration", content=bundle.registration.to_bytes(4, "big")),
        node("type", content=DJB),
        node("identity", content=bundle.identity),
    ]
    if bundle.prekey_id is not None and bundle.prekey is not None:
        key = [node("id", content=bundle.prekey_id.to_bytes(3, "big")), node("value", content=bundle.prekey)]
        content.append(node("key", content=key))
    return [*content, _skey(bundle.signed_id, bundle.signed_key, bundle.signature)]


def notify_if_low(state: ServerState, device: Device) -> None:
    """Notify a device that it has few pre-keys left."""
    if len(device.prekeys) == _LOW - 1:
        count = node("count", {"value": len(device.prekeys)})
        attrs = {"type": "encrypt", "id": state.next_id(), "t": str(state.now)}
        state.deliver(device, from_server("notification", attrs, [count]))
