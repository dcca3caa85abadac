"""Receipts, acknowledgements, presence: the small words between devices."""

from wa_orchestrator.simulator.errors import ProtocolError
from wa_orchestrator.simulator.phones import actions, encryption
from wa_orchestrator.simulator.protocol import jid
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.protocol.signal import Bundle
from wa_orchestrator.simulator.whatsapp.accounts import Device, Phone
from wa_orchestrator.simulator.whatsapp.connection import Connection
from wa_orchestrator.simulator.whatsapp.state import Hub

#: What a receipt tells the author; other types are between a person's own devices.
_TOLD = {"": "delivered", "inactive": "delivered", "read": "read", "played": "read"}


def receipt(hub: Hub, connection: Connection, stanza: Node) -> None:
    """Take a receipt of a device: it has the message, has read it, or asks for it again."""
    device, to = connection.device, jid.parse(stanza.attr("to"))
    if device is None or to is None:
        raise ProtocolError("a receipt without sender or addressee")
    kind = stanza.attr("type")
    hub.acknowledged(device, "message", stanza)
    attrs = {"class": "receipt", "id": stanza.attr("id"), "from": stanza.attr("to"), "type": kind or None}
    connection.send(node("ack", {**attrs, "participant": stanza.attr("participant") or None, "t": hub.now}))
    author = jid.parse(stanza.attr("participant")) if to.is_group else to
    phone = hub.accounts.find(author) if author else None
    if phone is None or author is None:
        return
    if kind == "retry":
        _retry(hub, device, phone, author, stanza)
    elif kind in _TOLD and phone.number != device.phone:
        _tell(hub, device, phone, to, stanza)


def _tell(hub: Hub, reader: Device, author: Phone, to: jid.Jid, stanza: Node) -> None:
    if hub.faults.active("no_receipts", author.number):
        return
    state = _TOLD[stanza.attr("type")]
    items = stanza.child("list")
    ids = [stanza.attr("id"), *(item.attr("id") for item in (items.children("item") if items else []))]
    for message_id in ids:
        hub.ledger.receipt(author.number, message_id, reader.phone, state)
    server = to.server if to.server == jid.LID else jid.SERVER
    source = str(reader.address(server)).replace(f":{reader.number}@", "@")
    attrs = {"id": ids[0], "t": str(hub.now), "from": str(to) if to.is_group else source}
    if to.is_group:
        attrs["participant"] = source
    if state == "read":
        attrs["type"] = "read"
        hub.ledger.take_unread(reader.phone, author.number)
    for device in author.devices.values():
        hub.deliver(device, Node("receipt", attrs, stanza.content))


def _retry(hub: Hub, device: Device, author: Phone, address: jid.Jid, stanza: Node) -> None:
    if address.device:
        other = author.devices.get(address.device)
        if other:
            attrs = {name: value for name, value in stanza.attrs.items() if name != "to"}
            attrs["from"] = str(device.address())
            hub.deliver(other, Node("receipt", attrs, stanza.content))
        return
    keys = stanza.child("keys")
    peer = (device.phone, device.number)
    encryption.begin(author, peer, _bundle(device, keys) if keys else device.take_bundle())
    count = int(stanza.need("retry").attr("count") or 1)
    actions.send_again(hub, author, device, stanza.attr("id"), count)


def _bundle(device: Device, keys: Node) -> Bundle:
    skey, key = keys.need("skey"), keys.child("key")
    return Bundle(
        device.registration,
        keys.bytes_of("identity"),
        int.from_bytes(skey.bytes_of("id"), "big"),
        skey.bytes_of("value"),
        skey.bytes_of("signature"),
        int.from_bytes(key.bytes_of("id"), "big") if key else None,
        key.bytes_of("value") if key else None,
    )


def ack(hub: Hub, connection: Connection, stanza: Node) -> None:
    """Take an acknowledgement: what it names need not be sent again."""
    connection.unacked_refresh.discard(stanza.attr("id"))
    if connection.device:
        hub.acknowledged(connection.device, stanza.attr("class"), stanza)


def presence(hub: Hub, connection: Connection, stanza: Node) -> None:
    """Note whether a device is available."""
    kind = stanza.attr("type") or "available"
    if connection.phone is None or kind not in ("available", "unavailable"):
        return
    connection.available = kind == "available"
    if stanza.attr("name"):
        hub.accounts.phone(connection.phone).name = stanza.attr("name")
    hub.ledger.note_state(at=hub.clock(), **{"from": connection.phone, "to": None}, state=kind)


def chatstate(hub: Hub, connection: Connection, stanza: Node) -> None:
    """Note that somebody types, and let the other side's devices see it."""
    to, state = jid.parse(stanza.attr("to")), next(iter(stanza.children()), None)
    if connection.phone is None or to is None or state is None:
        return
    word = "recording" if state.attr("media") == "audio" else state.tag
    other = None if to.is_group else hub.accounts.find(to)
    name = other.number if other else str(to)
    hub.ledger.note_state(at=hub.clock(), **{"from": connection.phone, "to": name}, state=word)
    for device in other.devices.values() if other else ():
        there = hub.online.get((device.phone, device.number))
        if there and there.active:
            there.send(Node("chatstate", {"from": str(jid.of_phone(connection.phone))}, [state]))
