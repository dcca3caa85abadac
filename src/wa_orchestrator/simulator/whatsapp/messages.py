"""Messages from linked devices: booked, relayed to other devices, decrypted by the phones they are for, confirmed."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from wa_orchestrator.simulator.errors import ProtocolError
from wa_orchestrator.simulator.phones import encryption
from wa_orchestrator.simulator.protocol import jid, message_content
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.protocol.jid import Jid
from wa_orchestrator.simulator.protocol.message_content import Content
from wa_orchestrator.simulator.whatsapp.accounts import Device, Phone
from wa_orchestrator.simulator.whatsapp.connection import Connection
from wa_orchestrator.simulator.whatsapp.state import Hub

_REACHOUT_LOCKED, _NOT_FOUND = 463, 404
_MAX_RETRIES = 3


@dataclass(frozen=True, slots=True)
class Sent:
    """A message on its way: who sends it, from which device, to which chat."""

    stanza: Node
    sender: Phone
    device: Device
    connection: Connection
    to: Jid
    #: the number of the other person, or the group's address
    chat: str
    #: the other people: their phones get it and confirm it
    others: tuple[Phone, ...]

    @property
    def id(self) -> str:
        return self.stanza.attr("id")


def handle(hub: Hub, connection: Connection, stanza: Node) -> None:
    """Take one message. Raises ProtocolError if it makes no sense."""
    device, to = connection.device, jid.parse(stanza.attr("to"))
    if device is None or to is None or not stanza.attr("id"):
        raise ProtocolError("a message without sender, recipient or id")
    if stanza.attr("category") == "peer":
        connection.send(_ack(hub, stanza))
        return
    sender = hub.accounts.phone(device.phone)
    if to.device or stanza.attr("participant"):
        _resend(hub, sender, device, to, stanza)
        connection.send(_ack(hub, stanza))
        return
    sent = _address(hub, connection, device, to, stanza)
    error = _error(hub, sent)
    if error:
        entry = {"from": sender.number, "to": sent.chat, "id": sent.id, "code": error, "proxy": connection.proxy}
        hub.ledger.refuse(at=hub.clock(), **entry)
        connection.send(_ack(hub, stanza, error))
        return
    _accept(hub, sent)


def _address(hub: Hub, connection: Connection, device: Device, to: Jid, stanza: Node) -> Sent:
    sender = hub.accounts.phone(device.phone)
    if to.is_group:
        group = hub.groups.get(str(to))
        members = group.members if group else []
        others = tuple(hub.accounts.phone(number) for number in members if number != sender.number)
        return Sent(stanza, sender, device, connection, to, str(to), others)
    other = hub.accounts.find(to)
    chat = other.number if other else to.user
    return Sent(stanza, sender, device, connection, to, chat, (other,) if other else ())


def _error(hub: Hub, sent: Sent) -> int | None:
    """Decide whether WhatsApp refuses the message, and with which code."""
    number = sent.sender.number
    fault = hub.faults.active("ack_error", number)
    if fault and fault.extra.get("to") in (None, sent.chat):
        hub.faults.use(fault)
        return fault.code or 500
    if not sent.others:
        return _NOT_FOUND
    is_new = not sent.to.is_group and sent.chat not in sent.sender.contacts and sent.chat != number
    if is_new and hub.faults.active("reachout_lock", number):
        return _REACHOUT_LOCKED
    return None


def _accept(hub: Hub, sent: Sent) -> None:
    key = (sent.sender.number, sent.chat, sent.id)
    if key in hub.retries:
        hub.retries.discard(key)  # we asked for it: the same message, not a repeat
    else:
        hub.ledger.arrive(
            at=hub.clock(),
            **{"from": key[0], "to": key[1], "id": key[2]},
            text=None,
            kind="undecrypted",
            connection=sent.connection.number,
            proxy=sent.connection.proxy,
            device=sent.device.number,
        )
    for other in sent.others:
        sent.sender.contacts.add(other.number)
        other.contacts.add(sent.sender.number)
    could_read = [_hand_over(hub, sent, address, encs) for address, encs in _copies(sent)]
    readers = _group_readers(hub, sent) if sent.to.is_group else {phone for phone in could_read if phone in sent.others}
    fault = hub.faults.active("ack_delay", sent.sender.number)
    delay = float(fault.extra.get("seconds") or 0) if fault else 0.0
    if delay:
        asyncio.get_running_loop().call_later(delay, _confirm, hub, sent, readers)
    else:
        _confirm(hub, sent, readers)


def _copies(sent: Sent) -> Iterator[tuple[Jid, list[Node]]]:
    """Every copy with the device it is for."""
    participants = sent.stanza.child("participants")
    for part in participants.children("to") if participants else []:
        address = jid.parse(part.attr("jid"))
        if address:
            yield address, part.children("enc")


def _hand_over(hub: Hub, sent: Sent, address: Jid, encs: list[Node]) -> Phone | None:
    """Give a copy to the device it is for; returns the phone if it is one and could read it."""
    phone = hub.accounts.find(address)
    if phone is None:
        return None
    if address.device:
        device = phone.devices.get(address.device)
        if device:
            # In a group the copy hands out the key only; the message itself is the same for all.
            shared = sent.stanza.children("enc") if sent.to.is_group else []
            relay(hub, sent.device, device, sent.to, stanza=sent.stanza, encs=[*encs, *shared])
        return None
    peer = (sent.sender.number, sent.device.number)
    for enc in encs:
        try:
            message = encryption.decrypt(phone, peer, enc)
        except ProtocolError:  # no key for it, or not even a message
            _ask_again(hub, sent, phone)
            return None
        encryption.learn_sender_key(phone, peer, message)
        if not sent.to.is_group:
            _, inner = message_content.unwrap(message)
            _show(hub, sent, phone, message_content.read(inner))
    return phone if encs else None


def _group_readers(hub: Hub, sent: Sent) -> set[Phone]:
    """Let the members' phones decrypt a group message, and pass it to their devices; returns who could read it."""
    message = next((enc for enc in sent.stanza.children("enc") if enc.attr("type") == "skmsg"), None)
    if message is None:
        return set()
    told = {(address.user, address.device or 0) for address, _ in _copies(sent)}
    readers = set()
    for phone in (*sent.others, sent.sender):
        for device in phone.devices.values():
            is_new = not told & {(phone.number, device.number), (phone.lid, device.number)}
            if device is not sent.device and is_new:
                relay(hub, sent.device, device, sent.to, stanza=sent.stanza, encs=[message])
        try:
            peer = (sent.sender.number, sent.device.number)
            inner = encryption.decrypt_group(phone, sent.chat, peer, message.data)
        except ProtocolError:
            _ask_again(hub, sent, phone)
            continue
        _show(hub, sent, phone, message_content.read(inner))
        if phone is not sent.sender:
            readers.add(phone)
    return readers


def _show(hub: Hub, sent: Sent, phone: Phone, what: Content) -> None:
    hub.ledger.describe(sent.sender.number, sent.chat, sent.id, what)
    if what.kind in ("protocol", "sender_key"):
        return  # between programs: nothing that a person sees
    is_own = phone is sent.sender
    chat = sent.chat if is_own or sent.to.is_group else sent.sender.number
    hub.ledger.show(phone.number, chat, inbox_entry(hub, sent.sender.number, sent.chat, sent.id, what, is_own=is_own))


def inbox_entry(hub: Hub, sender: str, to: str, message_id: str, what: Content, *, is_own: bool) -> dict[str, object]:
    """What a phone shows of a message."""
    entry: dict[str, object] = {"id": message_id, "from": sender, "to": to, "text": what.text, "kind": what.kind}
    entry |= {"fromMe": is_own, "at": hub.clock()}
    if what.file:
        file = what.file
        entry["media"] = {"mimetype": file.mimetype, "path": file.path, "length": file.length, "name": file.name}
        entry["_file"] = file
    if what.expires:
        entry["expires"] = what.expires
    return entry


def _ask_again(hub: Hub, sent: Sent, phone: Phone) -> None:
    """A phone that cannot decrypt asks the sending device to encrypt anew, a few times at most."""
    key = (sent.sender.number, sent.chat, sent.id)
    count = hub.asked.get(key, 0) + 1
    if key in hub.retries or count > _MAX_RETRIES:
        return  # one request is enough: the device encrypts anew for everybody
    hub.asked[key] = count
    hub.retries.add(key)
    is_own = phone is sent.sender
    attrs = {"id": sent.id, "type": "retry", "t": str(hub.now)}
    attrs["from"] = str(sent.to) if sent.to.is_group else str(phone.address)
    if sent.to.is_group:
        attrs["participant"] = str(phone.address)
    elif is_own:
        attrs["recipient"] = str(sent.to)
    request = [
        node("retry", {"count": count, "id": sent.id, "t": hub.now, "v": "1"}),
        node("registration", content=phone.registration.to_bytes(4, "big")),
    ]
    hub.deliver(sent.device, Node("receipt", attrs, request))


def _confirm(hub: Hub, sent: Sent, readers: set[Phone]) -> None:
    sent.connection.send(_ack(hub, sent.stanza))
    if hub.faults.active("no_receipts", sent.sender.number):
        return
    for reader in readers:
        if hub.faults.active("no_receipts", reader.number):
            continue
        hub.ledger.receipt(sent.sender.number, sent.id, reader.number, "delivered")
        attrs = {"from": str(sent.to), "id": sent.id, "t": str(hub.now)}
        if sent.to.is_group:
            attrs["participant"] = str(reader.address)
        for device in sent.sender.devices.values():
            hub.deliver(device, Node("receipt", attrs))


def relay(hub: Hub, source: Device, device: Device, to: Jid, *, stanza: Node, encs: list[Node]) -> None:
    """Pass a copy on to another linked device, as from the device that sent it."""
    server = to.server if to.server == jid.LID else jid.SERVER
    other = jid.SERVER if server == jid.LID else jid.LID
    sender, alternative = str(source.address(server)), str(source.address(other)).replace(f":{source.number}@", "@")
    attrs = {"id": stanza.attr("id"), "t": str(hub.now), "type": stanza.attr("type") or "text"}
    attrs["notify"] = hub.accounts.phone(source.phone).name
    which = "sender_pn" if server == jid.LID else "sender_lid"
    if to.is_group:
        attrs |= {"from": str(to), "participant": sender, "participant_lid": alternative}
    else:
        attrs |= {"from": sender, which: alternative}
        if source.phone == device.phone:
            attrs["recipient"] = str(to)
    body = list(encs)
    identity = stanza.child("device-identity")
    if identity:
        body.append(identity)
    hub.deliver(device, Node("message", attrs, body))


def _resend(hub: Hub, sender: Phone, source: Device, to: Jid, stanza: Node) -> None:
    """A copy for one device that asked again."""
    target = jid.parse(stanza.attr("participant")) if to.is_group else to
    device = hub.accounts.device(target) if target else None
    if device is None:
        return
    chat = jid.parse(stanza.attr("recipient")) if device.phone == sender.number else to
    if not to.is_group and chat:
        chat = Jid(chat.user, chat.server)
    relay(hub, source, device, chat or to, stanza=stanza, encs=stanza.children("enc"))


def _ack(hub: Hub, stanza: Node, error: int | None = None) -> Node:
    where = {"class": "message", "id": stanza.attr("id"), "from": stanza.attr("to")}
    return node("ack", {**where, "t": hub.now, "error": error})
