"""Actions of people on their phones: send, read, unlink devices."""

from wa_orchestrator.simulator.errors import SimulatorError
from wa_orchestrator.simulator.phones import encryption
from wa_orchestrator.simulator.protocol import jid, message_content, protobuf
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.whatsapp import media
from wa_orchestrator.simulator.whatsapp.accounts import Device, Phone
from wa_orchestrator.simulator.whatsapp.stanzas import device_notifications, groups
from wa_orchestrator.simulator.whatsapp.stanzas.messages import inbox_entry
from wa_orchestrator.simulator.whatsapp.state import ServerState, new_message_id

_KEPT_FOR_RETRY = 5000


def send_message(state: ServerState, phone: Phone, to: str, message: bytes, *, by_lid: bool = False) -> str:
    """Send a message from a phone to a phone or a group and return its id."""
    message_id = new_message_id()
    _remember(state, phone, message_id, to, message)
    what = message_content.read(protobuf.decode(message))
    members = groups.find(state, to).members if "@" in to else [to]
    if "@" in to and phone.number not in members:
        raise SimulatorError("NOT_A_MEMBER", f"{phone.number} is not in the group {to}.")
    for number in dict.fromkeys([phone.number, *members]):
        person = state.accounts.phone(number)
        is_own = person is phone
        chat = to if is_own or "@" in to else phone.number
        state.ledger.add_to_inbox(number, chat, inbox_entry(state, phone.number, to, message_id, what, is_own=is_own))
        person.contacts.add(phone.number)
        phone.contacts.add(number)
    if "@" in to:
        _send_to_group(state, phone, to, message_id, message)
        return message_id
    for device in state.accounts.phone(to).devices.values():
        enc = encryption.encrypt_for(phone, device, message)
        state.deliver(device, _envelope(state, phone, message_id, [enc], by_lid=by_lid))
    if to != phone.number:
        _copy_to_own_devices(state, phone, to, message_id, message)
    return message_id


def _copy_to_own_devices(state: ServerState, phone: Phone, to: str, message_id: str, message: bytes) -> None:
    chat = str(jid.of_phone(to))
    for device in phone.devices.values():
        enc = encryption.encrypt_for(phone, device, message_content.device_sent(chat, message))
        stanza = _envelope(state, phone, message_id, [enc], by_lid=False)
        stanza.attrs["recipient"] = chat
        state.deliver(device, stanza)


def _envelope(state: ServerState, phone: Phone, message_id: str, encs: list[Node], *, by_lid: bool) -> Node:
    number, lid = str(phone.address), f"{phone.lid}@{jid.LID}"
    attrs = {"id": message_id, "t": str(state.now), "type": "text", "notify": phone.name}
    attrs |= {"from": lid, "sender_pn": number} if by_lid else {"from": number, "sender_lid": lid}
    return Node("message", attrs, list(encs))


def _send_to_group(state: ServerState, phone: Phone, group: str, message_id: str, message: bytes) -> None:
    sealed, distribution, holders = encryption.encrypt_group(phone, group, message)
    handed = message_content.sender_key(group, distribution)
    for number in groups.find(state, group).members:
        for device in state.accounts.phone(number).devices.values():
            peer = (device.phone, device.number)
            encs = [] if peer in holders else [encryption.encrypt_for(phone, device, handed)]
            holders.add(peer)
            encs.append(node("enc", {"v": "2", "type": "skmsg"}, sealed))
            state.deliver(device, _group_envelope(state, phone, group, message_id, encs))


def _group_envelope(state: ServerState, phone: Phone, group: str, message_id: str, encs: list[Node]) -> Node:
    attrs = {"id": message_id, "t": str(state.now), "type": "text", "notify": phone.name, "from": group}
    attrs |= {"participant": str(phone.address), "participant_lid": f"{phone.lid}@{jid.LID}"}
    return Node("message", attrs, encs)


def _remember(state: ServerState, phone: Phone, message_id: str, to: str, message: bytes) -> None:
    state.outgoing[phone.number, message_id] = (to, message)
    while len(state.outgoing) > _KEPT_FOR_RETRY:
        del state.outgoing[next(iter(state.outgoing))]


def resend(state: ServerState, phone: Phone, device: Device, message_id: str, count: int) -> None:
    """Encrypt a message again for a device that could not decrypt it."""
    known = state.outgoing.get((phone.number, message_id))
    if known is None:
        return
    to, message = known
    if "@" in to:
        key, holders = phone.own_sender_keys[to]
        holders.add((device.phone, device.number))
        message = message + message_content.sender_key(to, key.distribution())
        enc = encryption.encrypt_for(phone, device, message, count)
        state.deliver(device, _group_envelope(state, phone, to, message_id, [enc]))
        return
    is_own = device.phone == phone.number and to != phone.number
    chat = str(jid.of_phone(to))
    enc = encryption.encrypt_for(
        phone, device, message_content.device_sent(chat, message) if is_own else message, count
    )
    stanza = _envelope(state, phone, message_id, [enc], by_lid=False)
    if is_own:
        stanza.attrs["recipient"] = chat
    state.deliver(device, stanza)


def send_file(
    state: ServerState,
    phone: Phone,
    to: str,
    kind: str,
    data: bytes,
    *,
    mimetype: str,
    caption: str | None,
    name: str | None,
) -> str:
    """Send a file and return the message's id. Raises SimulatorError for an unknown kind."""
    if kind not in ("image", "video", "audio", "document", "sticker"):
        raise SimulatorError("UNKNOWN_KIND", f"There are no files of kind {kind!r}.")
    sealed = media.encrypt(data, kind)
    path = state.shelf.put(sealed.blob)
    message = message_content.file(sealed, path, kind, mimetype, caption=caption, name=name, now=state.now)
    return send_message(state, phone, to, message)


def read(state: ServerState, phone: Phone, of: str | None) -> int:
    """Mark unread messages as read, send read receipts, and return their number."""
    unread = state.ledger.take_unread(phone.number, of)
    by_author: dict[tuple[str, str], list[str]] = {}
    for entry in unread:
        by_author.setdefault((entry["from"], entry["chat"]), []).append(entry["id"])
    for (author, chat), ids in by_author.items():
        _send_read_receipt(state, phone, state.accounts.phone(author), chat, ids)
    return len(unread)


def _send_read_receipt(state: ServerState, reader: Phone, author: Phone, chat: str, ids: list[str]) -> None:
    for message_id in ids:
        state.ledger.record_receipt(author.number, message_id, reader.number, "read")
    if state.faults.active("no_receipts", author.number):
        return
    attrs = {"id": ids[0], "type": "read", "t": str(state.now), "from": str(reader.address)}
    if "@" in chat:
        attrs |= {"from": chat, "participant": str(reader.address)}
    items = [node("list", content=[node("item", {"id": message_id}) for message_id in ids[1:]])] if ids[1:] else None
    for device in author.devices.values():
        state.deliver(device, Node("receipt", attrs, items))


def unlink(state: ServerState, phone: Phone, number: int | None) -> None:
    """Unlink one or all devices from the phone. Raises SimulatorError if there is no such device."""
    devices = [device for device in phone.devices.values() if number in (None, device.number)]
    if not devices:
        raise SimulatorError("NOT_LINKED", f"{phone.number} has no such linked device.")
    for device in devices:
        connection = state.online.get((device.phone, device.number))
        forget_device(state, device)
        if connection:
            conflict = node("conflict", {"type": "device_removed"})
            connection.end_with(node("stream:error", {"code": "401"}, [conflict]))


def forget_device(state: ServerState, device: Device) -> None:
    """Remove a device from its account."""
    phone = state.accounts.phone(device.phone)
    phone.devices.pop(device.number, None)
    phone.sessions.pop((device.phone, device.number), None)
    device_notifications.announce_removed(state, device)
    state.changed(device.phone)
