"""Handlers of receipts and acks."""

from wa_orchestrator.simulator.errors import ProtocolError
from wa_orchestrator.simulator.phones import actions, encryption, reuploads
from wa_orchestrator.simulator.protocol import jid
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.protocol.signal import PreKeyBundle
from wa_orchestrator.simulator.whatsapp.accounts import Device, Phone
from wa_orchestrator.simulator.whatsapp.connection import Connection
from wa_orchestrator.simulator.whatsapp.state import ServerState

#: Status of the message by type of receipt; other types are between devices of one account.
_STATUS = {"": "delivered", "inactive": "delivered", "read": "read", "played": "read"}


def handle_receipt(state: ServerState, connection: Connection, stanza: Node) -> None:
    """Handle a receipt: the device has received or read the message, or requests a retry."""
    device, to = connection.device, jid.parse(stanza.attr("to"))
    if device is None or to is None:
        raise ProtocolError("receipt without sender or recipient")
    kind = stanza.attr("type")
    if kind != "retry" or stanza.attr("to") != jid.STATUS:
        for message_id in _ids(stanza):
            state.acknowledged(device, "message", node("receipt", {"id": message_id}))
    attrs = {"class": "receipt", "id": stanza.attr("id"), "from": stanza.attr("to"), "type": kind or None}
    connection.send(node("ack", {**attrs, "participant": stanza.attr("participant") or None, "t": state.now}))
    author = jid.parse(stanza.attr("participant")) if to.is_group or to.is_list else to
    phone = state.accounts.find(author) if author else None
    if phone is None or author is None:
        return
    if kind == "server-error":
        reuploads.answer(state, device, stanza)
    elif kind == "retry":
        connection.retried.add(stanza.attr("id"))
        _handle_retry(state, device, phone, author, stanza)
    elif kind == "read-self":
        state.ledger.take_unread(device.phone, phone.number)
    elif kind in _STATUS and phone.number != device.phone:
        _forward(state, device, phone, to, stanza)


def _ids(stanza: Node) -> list[str]:
    """Return the ids of the messages that a receipt is for: it may be one for several."""
    items = stanza.child("list")
    return [stanza.attr("id"), *(item.attr("id") for item in (items.children("item") if items else []))]


def _forward(state: ServerState, reader: Device, author: Phone, to: jid.Jid, stanza: Node) -> None:
    if state.faults.active("no_receipts", author.number):
        return
    status = _STATUS[stanza.attr("type")]
    for message_id in _ids(stanza):
        state.ledger.record_receipt(author.number, message_id, reader.phone, status)
    group = state.groups.get(str(to))
    server = group.space if group else author.space
    source = str(reader.account(server))
    attrs = {"id": stanza.attr("id"), "t": str(state.now), "from": str(to) if to.is_group else source}
    if to.is_group:
        attrs["participant"] = source
    if status == "read":
        attrs["type"] = "read"
        state.ledger.take_unread(reader.phone, author.number)
    for device in author.devices.values():
        state.deliver(device, Node("receipt", attrs, stanza.content))


def _handle_retry(state: ServerState, device: Device, author: Phone, address: jid.Jid, stanza: Node) -> None:
    if address.device:
        other = author.devices.get(address.device)
        if other:
            attrs = {name: value for name, value in stanza.attrs.items() if name not in ("to", "participant")}
            group = state.groups.get(stanza.attr("to"))
            asking = str(device.address(group.space if group else author.space))
            attrs |= {"from": group.address, "participant": asking} if group else {"from": asking}
            state.deliver(other, Node("receipt", attrs, stanza.content))
        return
    keys = stanza.child("keys")
    peer = (device.phone, device.number)
    bundle = _bundle(device, keys) if keys else device.take_prekey_bundle()
    if not bundle.has_valid_signature or bundle.identity != device.identity:
        raise ProtocolError("the keys in a request for a message are not the device's own")
    encryption.start_session(author, peer, bundle)
    count = int(stanza.require("retry").attr("count") or 1)
    actions.resend(state, author, device, stanza.attr("id"), count)


def _bundle(device: Device, keys: Node) -> PreKeyBundle:
    skey, key = keys.require("skey"), keys.child("key")
    return PreKeyBundle(
        device.registration,
        keys.child_bytes("identity"),
        int.from_bytes(skey.child_bytes("id"), "big"),
        skey.child_bytes("value"),
        skey.child_bytes("signature"),
        int.from_bytes(key.child_bytes("id"), "big") if key else None,
        key.child_bytes("value") if key else None,
    )


def handle_ack(state: ServerState, connection: Connection, stanza: Node) -> None:
    """Handle an ack: the stanza need not be sent again."""
    name, kind = stanza.attr("id"), stanza.attr("class")
    connection.unacked_refresh.discard(name)
    if kind == "message" and stanza.attr("to") == jid.STATUS and stanza.attr("error") and connection.device:
        connection.device.refused.add(name)
    elif kind == "message" and name in connection.retried:
        # For the stanza that could not be decrypted. What was sent again under its id is not acknowledged by it.
        connection.retried.discard(name)
    elif connection.device:
        state.acknowledged(connection.device, kind, stanza)
