"""Actions of people on their phones: send, read, unlink devices."""

from enum import StrEnum

from wa_orchestrator.simulator.errors import SimulatorError
from wa_orchestrator.simulator.phones import content, encryption
from wa_orchestrator.simulator.phones.content import Chat, Content, SentMessage
from wa_orchestrator.simulator.protocol import jid, message_content, protobuf
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.protocol.message_content import Content as Read
from wa_orchestrator.simulator.whatsapp import media
from wa_orchestrator.simulator.whatsapp.accounts import Device, Phone
from wa_orchestrator.simulator.whatsapp.stanzas import addressing, device_notifications, groups, trust_tokens
from wa_orchestrator.simulator.whatsapp.stanzas.groups import Group
from wa_orchestrator.simulator.whatsapp.stanzas.messages import inbox_entry
from wa_orchestrator.simulator.whatsapp.state import ServerState, new_message_id

_KEPT_FOR_RETRY = 5000


class FileForm(StrEnum):
    """How a file is sent."""

    PLAIN = "plain"
    VOICE = "voice"
    VIEW_ONCE = "view_once"


def send_message(
    state: ServerState,
    phone: Phone,
    to: str,
    message: bytes,
    *,
    by_lid: bool | None = None,
    alone: bool = False,
    via_list: str = "",
) -> str:
    """Send a message from a phone to a phone or a group and return its id.

    `alone` omits the sender's other name; `via_list` is the broadcast list that the receiver is in.
    """
    message_id = new_message_id()
    _remember(state, phone, message_id, to, message)
    what = message_content.read(protobuf.decode(message))
    group = groups.find(state, to) if "@" in to else None
    members = group.members if group else [to]
    if phone.number not in members and group:
        raise SimulatorError("NOT_A_MEMBER", f"{phone.number} is not in the group {to}.")
    for number in dict.fromkeys([phone.number, *members]):
        person = state.accounts.phone(number)
        is_own = person is phone
        chat = to if is_own or "@" in to else phone.number
        if what.kind == "protocol":  # an edit or a deletion, which is no message of its own
            continue
        state.ledger.add_to_inbox(number, chat, inbox_entry(state, phone.number, to, message_id, what, is_own=is_own))
        if not is_own:
            state.ring(person)
        person.contacts.add(phone.number)
        phone.contacts.add(number)
    if group:
        _send_to_group(state, phone, group, message_id, message)
        return message_id
    receiver = state.accounts.phone(to)
    names = _names(phone, receiver, by_lid=by_lid)
    if alone:
        names = {"from": names["from"]}
    if via_list:
        names = addressing.in_list(via_list, receiver, phone)
    for device in receiver.devices.values():
        parts = _first_copy(state, phone, device, message, what)
        state.deliver(device, _envelope(state, phone, message_id, what, names, encs=parts))
    trust_tokens.hand_over(state, phone, receiver)
    if receiver is not phone:
        _copy_to_own_devices(state, phone, receiver, message_id, message)
    return message_id


def _names(phone: Phone, receiver: Phone, *, by_lid: bool | None) -> dict[str, str]:
    """Return how a message names its sender: by the receiver's account, or in the given way."""
    if by_lid is None or by_lid == receiver.migrated:
        return addressing.in_chat(receiver, phone)
    number, lid = str(phone.address), str(phone.address_in(jid.LID))
    return {"from": lid, "sender_pn": number} if by_lid else {"from": number, "sender_lid": lid}


def _first_copy(state: ServerState, phone: Phone, device: Device, message: bytes, what: Read) -> list[Node]:
    """Return the content of a message for a device, as the active faults let it through."""
    absent = state.faults.active("absent", device.phone)
    if absent:
        state.faults.use(absent)
        return [node("unavailable", {"type": absent.extra.get("type")})]
    enc = _encrypt(phone, device, message, what)
    desync = state.faults.active("desync", device.phone)
    if desync:
        state.faults.use(desync)
        return [encryption.spoil(enc)]
    return [enc]


def _copy_to_own_devices(state: ServerState, phone: Phone, to: Phone, message_id: str, message: bytes) -> None:
    what = message_content.read(protobuf.decode(message))
    for device in phone.devices.values():
        copy = message_content.device_sent(str(to.address_in(phone.space)), message)
        enc = _encrypt(phone, device, copy, what)
        state.deliver(device, _envelope(state, phone, message_id, what, addressing.own_copy(phone, to), encs=[enc]))


def _encrypt(phone: Phone, device: Device, message: bytes, what: Read, count: int | None = None) -> Node:
    enc = encryption.encrypt_for(phone, device, message, count)
    return _with_media_type(enc, what)


def _with_media_type(enc: Node, what: Read) -> Node:
    if what.file:
        enc.attrs["mediatype"] = what.kind
    return enc


def _envelope(
    state: ServerState, phone: Phone, message_id: str, what: Read, names: dict[str, str], *, encs: list[Node]
) -> Node:
    kind = "media" if what.file else "reaction" if what.kind == "reaction" else "text"
    attrs = {"id": message_id, "t": str(state.now), "type": kind, "notify": phone.name, **names}
    if what.edit:
        attrs["edit"] = what.edit
    return Node("message", attrs, list(encs))


def _send_to_group(state: ServerState, phone: Phone, group: Group, message_id: str, message: bytes) -> None:
    what = message_content.read(protobuf.decode(message))
    sealed, distribution, holders = encryption.encrypt_group(phone, group.address, message)
    handed = message_content.sender_key(group.address, distribution)
    names = addressing.in_group(group, phone)
    for number in group.members:
        for device in state.accounts.phone(number).devices.values():
            peer = (device.phone, device.number)
            encs = [] if peer in holders else [encryption.encrypt_for(phone, device, handed)]
            holders.add(peer)
            encs.append(_with_media_type(node("enc", {"v": "2", "type": "skmsg"}, sealed), what))
            state.deliver(device, _envelope(state, phone, message_id, what, names, encs=encs))


def _remember(state: ServerState, phone: Phone, message_id: str, to: str, message: bytes) -> None:
    state.outgoing[phone.number, message_id] = (to, message)
    while len(state.outgoing) > _KEPT_FOR_RETRY:
        del state.outgoing[next(iter(state.outgoing))]


def resend(state: ServerState, phone: Phone, device: Device, message_id: str, count: int) -> None:
    """Encrypt a message again for a device that could not decrypt it."""
    known = state.outgoing.get((phone.number, message_id))
    if known is None or state.faults.active("no_resend", device.phone):
        return
    to, message = known
    what = message_content.read(protobuf.decode(message))
    if "@" in to:
        key, holders = phone.own_sender_keys[to]
        holders.add((device.phone, device.number))
        message = message + message_content.sender_key(to, key.distribution())
        names = addressing.in_group(groups.find(state, to), phone)
    elif device.phone == phone.number and to != phone.number:
        other = state.accounts.phone(to)
        message = message_content.device_sent(str(other.address_in(phone.space)), message)
        names = addressing.own_copy(phone, other)
    else:
        names = addressing.in_chat(state.accounts.phone(device.phone), phone)
    enc = _encrypt(phone, device, message, what, count)
    state.deliver(device, _envelope(state, phone, message_id, what, names, encs=[enc]))


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
    form: FileForm = FileForm.PLAIN,
    album: str | None = None,
    thumbnail: bytes = b"",
) -> str:
    """Send a file, maybe as a part of the album that `album` began, and return the message's id.

    Raises SimulatorError for an unknown kind.
    """
    if kind not in ("image", "video", "audio", "document", "sticker"):
        raise SimulatorError("UNKNOWN_KIND", f"There are no files of kind {kind!r}.")
    sealed = media.encrypt(data, kind)
    path = state.shelf.put(sealed.blob)
    voice = form is FileForm.VOICE
    message = message_content.file(
        sealed, path, kind, mimetype, caption=caption, name=name, now=state.now, voice=voice, thumbnail=thumbnail
    )
    if form is FileForm.VIEW_ONCE:
        message = content.view_once(message)
    if album is not None:
        message = content.in_album(message, album, chat_of(state, phone, to).address)
    return send_message(state, phone, to, message)


def send_content(state: ServerState, phone: Phone, to: str, what: Content) -> str:
    """Send anything else that a person can send, and return the message's id."""
    message = content.encode(what, chat_of(state, phone, to), state.now * 1000)
    return send_message(state, phone, to, message)


def chat_of(state: ServerState, phone: Phone, to: str) -> Chat:
    """Return how messages of a phone to a chat name people: as the group or the receiving account does."""
    group = groups.find(state, to) if "@" in to else None
    space = group.space if group else state.accounts.phone(to).space

    def name(number: str) -> str:
        return str(state.accounts.phone(number).address_in(space))

    def sent(message_id: str) -> SentMessage | None:
        for (creator, known), (_, message) in state.outgoing.items():
            if known == message_id:
                return SentMessage(known, creator, message)
        return None

    return Chat(group.address if group else name(to), phone.number, name, sent)


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
    attrs = {"id": ids[0], "type": "read", "t": str(state.now), "from": str(reader.address_in(author.space))}
    if "@" in chat:
        attrs |= {"from": chat, "participant": str(reader.address_in(groups.find(state, chat).space))}
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
