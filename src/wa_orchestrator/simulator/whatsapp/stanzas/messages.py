"""Messages from linked devices: recorded, relayed, decrypted by the recipients' phones, confirmed by receipts."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace

from wa_orchestrator.simulator.errors import ProtocolError
from wa_orchestrator.simulator.phones import encryption, peer_messages
from wa_orchestrator.simulator.protocol import jid, message_content, message_parts, voice_notes
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.protocol.jid import Jid
from wa_orchestrator.simulator.protocol.message_content import Content
from wa_orchestrator.simulator.protocol.protobuf import ProtobufFields
from wa_orchestrator.simulator.whatsapp import media
from wa_orchestrator.simulator.whatsapp.accounts import Device, Phone
from wa_orchestrator.simulator.whatsapp.connection import Connection
from wa_orchestrator.simulator.whatsapp.stanzas import addressing, device_lists, graphql, trust_tokens
from wa_orchestrator.simulator.whatsapp.stanzas.groups import Group
from wa_orchestrator.simulator.whatsapp.state import ServerState

_REACHOUT_LOCKED, _NEW_CHATS_CAPPED, _NOT_FOUND, _INVALID_STANZA = 463, 475, 404, 479
_MAX_RETRIES = 3


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """A message of a linked device: sender, device, chat."""

    stanza: Node
    sender: Phone
    device: Device
    connection: Connection
    to: Jid
    #: the recipient's number, or the group's JID
    chat: str
    #: the recipients' phones, which confirm it
    others: tuple[Phone, ...]
    group: Group | None = None

    @property
    def id(self) -> str:
        return self.stanza.attr("id")


def handle(state: ServerState, connection: Connection, stanza: Node) -> None:
    """Handle one message. Raises ProtocolError if it is malformed."""
    device, to = connection.device, jid.parse(stanza.attr("to"))
    if device is None or to is None or not stanza.attr("id"):
        raise ProtocolError("message without sender, recipient or id")
    sender = state.accounts.phone(device.phone)
    if stanza.attr("category") == "peer":
        if stanza.child("tctoken"):
            connection.send(_ack(state, stanza, _INVALID_STANZA))
            return
        connection.send(_ack(state, stanza))
        peer_messages.answer(state, sender, device, stanza)
        return
    if to.device or stanza.attr("participant"):
        _resend(state, sender, device, to, stanza)
        connection.send(_ack(state, stanza))
        return
    if to.server == jid.LID and to.user in state.accounts.retired_lids:
        _answer_retired(state, connection, stanza)
        return
    sent = _outgoing(state, connection, device, to, stanza)
    error = _error(state, sent)
    if error:
        entry = {"from": sender.number, "to": sent.chat, "id": sent.id, "code": error, "proxy": connection.proxy}
        state.ledger.record_refusal(at=state.clock(), **entry)
        connection.send(_ack(state, stanza, error))
        return
    _accept(state, sent)


def _answer_retired(state: ServerState, connection: Connection, stanza: Node) -> None:
    """Answer a message to a LID that nobody has any more: it is accepted, nobody sees it, and the ack says so."""
    if state.faults.active("refuse_retired", connection.phone):
        connection.send(_ack(state, stanza, _INVALID_STANZA))
        return
    ack = _ack(state, stanza)
    ack.attrs["refresh_lid"] = "true"
    connection.send(ack)


def _outgoing(state: ServerState, connection: Connection, device: Device, to: Jid, stanza: Node) -> OutgoingMessage:
    sender = state.accounts.phone(device.phone)
    if to.is_group:
        group = state.groups.get(str(to))
        members = group.members if group else []
        others = tuple(state.accounts.phone(number) for number in members if number != sender.number)
        return OutgoingMessage(stanza, sender, device, connection, to, str(to), others, group)
    other = state.accounts.find(to)
    chat = other.number if other else to.user
    return OutgoingMessage(stanza, sender, device, connection, to, chat, (other,) if other else ())


def _error(state: ServerState, sent: OutgoingMessage) -> int | None:
    """Return the code with which WhatsApp refuses the message, or None."""
    number = sent.sender.number
    fault = state.faults.active("ack_error", number)
    if fault and fault.extra.get("to") in (None, sent.chat):
        state.faults.use(fault)
        return fault.code or 500
    if not sent.others:
        return _NOT_FOUND
    wrong = _wrong_names(sent)
    if wrong:
        return wrong
    if state.faults.active("strict_peer_pn", number) and _lacks_number(sent):
        return _REACHOUT_LOCKED
    is_new = _is_new_chat(sent)
    if is_new and state.faults.active("reachout_lock", number):
        return _REACHOUT_LOCKED
    if is_new and graphql.is_capped(state.faults.active("newchat_cap", number)):
        return _NEW_CHATS_CAPPED
    wary = None if sent.group or sent.chat == number else state.faults.active("needs_token", number)
    if wary and wary.extra.get("to") in (None, sent.chat):
        is_enough = trust_tokens.are_valid if wary.extra.get("first_contact", True) else trust_tokens.is_given
        return None if is_enough(state, sent.sender, sent.others[0], sent.stanza) else _REACHOUT_LOCKED
    return None


def _is_new_chat(sent: OutgoingMessage) -> bool:
    own = sent.sender
    return not sent.to.is_group and sent.chat not in own.contacts and sent.chat != own.number


def _wrong_names(sent: OutgoingMessage) -> int | None:
    devices = [address for address, _ in _copies(sent)]
    if sent.group:
        return addressing.group_refusal(sent.group, sent.stanza.attr("addressing_mode"), devices)
    return addressing.refusal(sent.sender, sent.to, devices)


def _lacks_number(sent: OutgoingMessage) -> bool:
    """Whether a message to a LID does not name the person's number, although that is no secret."""
    is_hidden = sent.group is not None or sent.to.server != jid.LID or sent.others[0].hides_number
    return not is_hidden and sent.stanza.attr("peer_recipient_pn") != str(sent.others[0].address)


def _accept(state: ServerState, sent: OutgoingMessage) -> None:
    key = (sent.sender.number, sent.chat, sent.id)
    if key in state.retries:
        state.retries.discard(key)  # it was requested by a retry receipt, so it is not a repeat
    else:
        state.ledger.record_arrival(
            at=state.clock(),
            **{"from": key[0], "to": key[1], "id": key[2]},
            text=None,
            kind="undecrypted",
            connection=sent.connection.number,
            proxy=sent.connection.proxy,
            device=sent.device.number,
            lacksNumber=_lacks_number(sent),
        )
    if _is_new_chat(sent):
        graphql.count_new_chat(state, sent.sender.number)
    for other in sent.others:
        sent.sender.contacts.add(other.number)
        other.contacts.add(sent.sender.number)
    could_read = [_deliver_copy(state, sent, address, encs) for address, encs in _copies(sent)]
    readers = (
        _decrypt_in_group(state, sent) if sent.to.is_group else {phone for phone in could_read if phone in sent.others}
    )
    fault = state.faults.active("ack_delay", sent.sender.number)
    delay = float(fault.extra.get("seconds") or 0) if fault else 0.0
    if delay:
        asyncio.get_running_loop().call_later(delay, _send_receipts, state, sent, readers)
    else:
        _send_receipts(state, sent, readers)


def _copies(sent: OutgoingMessage) -> Iterator[tuple[Jid, list[Node]]]:
    """Yield every copy with the JID of its device. One that names no devices is for the recipient's phone alone."""
    participants = sent.stanza.child("participants")
    if participants is None and not sent.group:
        yield sent.to, sent.stanza.children("enc")
    for part in participants.children("to") if participants else []:
        address = jid.parse(part.attr("jid"))
        if address:
            yield address, part.children("enc")


def _deliver_copy(state: ServerState, sent: OutgoingMessage, address: Jid, encs: list[Node]) -> Phone | None:
    """Deliver a copy to its device. Returns the phone if it is one and could decrypt it."""
    phone = state.accounts.find(address)
    if phone is None:
        return None
    if address.device:
        device = phone.devices.get(address.device)
        if device:
            # In a group the copy only distributes the sender key; the message itself is the same for all.
            shared = sent.stanza.children("enc") if sent.to.is_group else []
            relay(state, sent.device, device, _recipient(sent), stanza=sent.stanza, encs=[*encs, *shared])
        return None
    fault = state.faults.active("undecryptable", phone.number)
    if fault:
        state.faults.use(fault)
        _send_retry_receipt(state, sent, phone)
        return None
    peer = (sent.sender.number, sent.device.number)
    for enc in encs:
        try:
            message = encryption.decrypt(phone, peer, enc)
        except ProtocolError:  # undecryptable, or malformed
            _send_retry_receipt(state, sent, phone)
            return None
        encryption.store_sender_key(phone, peer, message)
        if not sent.to.is_group:
            _, inner = message_content.unwrap(message)
            _show(state, sent, phone, inner)
    return phone if encs else None


def _decrypt_in_group(state: ServerState, sent: OutgoingMessage) -> set[Phone]:
    """Decrypt a group message on the members' phones and relay it to their devices. Returns the phones that could."""
    message = next((enc for enc in sent.stanza.children("enc") if enc.attr("type") == "skmsg"), None)
    if message is None:
        return set()
    told = {(address.user, address.device or 0) for address, _ in _copies(sent)}
    readers = set()
    for phone in (*sent.others, sent.sender):
        for device in phone.devices.values():
            is_new = not told & {(phone.number, device.number), (phone.lid, device.number)}
            if device is not sent.device and is_new:
                relay(state, sent.device, device, _recipient(sent), stanza=sent.stanza, encs=[message])
        try:
            peer = (sent.sender.number, sent.device.number)
            inner = encryption.decrypt_group(phone, sent.chat, peer, message.data)
        except ProtocolError:
            _send_retry_receipt(state, sent, phone)
            continue
        _show(state, sent, phone, inner)
        if phone is not sent.sender:
            readers.add(phone)
    return readers


def _show(state: ServerState, sent: OutgoingMessage, phone: Phone, message: ProtobufFields) -> None:
    """Show a decrypted message on a phone: a new one in its inbox, or as a change of an earlier one."""
    what = _playable(state, message_content.read(message))
    state.ledger.describe(sent.sender.number, sent.chat, sent.id, what)
    is_own = phone is sent.sender
    chat = sent.chat if is_own or sent.to.is_group else sent.sender.number
    state.ledger.amend(phone.number, chat, sent.sender.number, what)
    if what.kind in ("protocol", "sender_key"):
        return  # a protocol message, which no inbox shows
    if message_parts.poll_field(message) is not None:  # to vote, its options and its secret are needed
        state.outgoing[sent.sender.number, sent.id] = (sent.chat, message.encoded())
    entry = inbox_entry(state, sent.sender.number, sent.chat, sent.id, what, is_own=is_own)
    if state.ledger.add_to_inbox(phone.number, chat, entry) and not is_own:
        state.ring(phone)


def _playable(state: ServerState, what: Content) -> Content:
    """Return what a phone shows of a message: a voice note that it does not play is `voice_unplayable`."""
    blob = state.shelf.get(what.file.path) if what.kind == "voice" and what.file else None
    if what.file is None or blob is None:
        return what
    wrong = voice_notes.refusal(media.decrypt(blob, what.file.kind, what.file.key, what.file.sha256))
    return replace(what, kind="voice_unplayable", parts={**what.parts, "why": wrong}) if wrong else what


def inbox_entry(
    state: ServerState, sender: str, to: str, message_id: str, what: Content, *, is_own: bool
) -> dict[str, object]:
    """Return the inbox entry of a message."""
    entry: dict[str, object] = {"id": message_id, "from": sender, "to": to, "text": what.text, "kind": what.kind}
    entry |= {"fromMe": is_own, "at": state.clock()}
    if what.file:
        file = what.file
        entry["media"] = {"mimetype": file.mimetype, "path": file.path, "length": file.length, "name": file.name}
        entry["_file"] = file
    if what.expires:
        entry["expires"] = what.expires
    if what.parts:
        entry["parts"] = what.parts
    return entry


def _send_retry_receipt(state: ServerState, sent: OutgoingMessage, phone: Phone) -> None:
    """Send a retry receipt from a phone that cannot decrypt, a few times at most."""
    key = (sent.sender.number, sent.chat, sent.id)
    count = state.asked.get(key, 0) + 1
    if key in state.retries or count > _MAX_RETRIES:
        return  # one is enough: the device encrypts again for all
    state.asked[key] = count
    state.retries.add(key)
    is_own = phone is sent.sender
    attrs = {"id": sent.id, "type": "retry", "t": str(state.now)}
    attrs["from"] = str(sent.to) if sent.group else str(phone.address_in(sent.sender.space))
    if sent.group:
        attrs["participant"] = str(phone.address_in(sent.group.space))
    elif is_own:
        attrs["recipient"] = str(sent.to)
    state.deliver(sent.device, Node("receipt", attrs, _retry_request(state, phone, sent.id, count)))


def ask_again(state: ServerState, asker: Phone, sender: Phone, chat: str, message_id: str) -> None:
    """Send a retry receipt for a message of any age to every device of its sender."""
    group = state.groups.get(chat)
    attrs = {"id": message_id, "type": "retry", "t": str(state.now)}
    attrs["from"] = chat if group else str(asker.address_in(sender.space))
    if group:
        attrs["participant"] = str(asker.address_in(group.space))
    state.retries.add((sender.number, chat, message_id))
    for device in sender.devices.values():
        state.deliver(device, Node("receipt", attrs, _retry_request(state, asker, message_id, 1)))


def _retry_request(state: ServerState, phone: Phone, message_id: str, count: int) -> list[Node]:
    return [
        node("retry", {"count": count, "id": message_id, "t": state.now, "v": "1"}),
        node("registration", content=phone.registration.to_bytes(4, "big")),
    ]


def _send_grouped_receipt(state: ServerState, sent: OutgoingMessage, group: Group, readers: set[Phone]) -> None:
    """Confirm a group message for all its readers in one stanza, which has an id of its own."""
    users = [node("user", {"jid": str(one.address_in(group.space)), "t": state.now}) for one in readers]
    attrs = {"from": group.address, "id": state.next_id(), "t": str(state.now)}
    for device in sent.sender.devices.values():
        state.deliver(device, Node("receipt", attrs, [node("participants", {"key": sent.id}, users)]))


def _send_receipts(state: ServerState, sent: OutgoingMessage, readers: set[Phone]) -> None:
    if sent.group and state.faults.active("grouped_receipts", sent.sender.number):
        _send_grouped_receipt(state, sent, sent.group, readers)
        return
    sent.connection.send(_ack(state, sent.stanza, phash=_current_devices(sent)))
    if state.faults.active("no_receipts", sent.sender.number):
        return
    for reader in readers:
        if state.faults.active("no_receipts", reader.number):
            continue
        state.ledger.record_receipt(sent.sender.number, sent.id, reader.number, "delivered")
        attrs = {"from": str(sent.to), "id": sent.id, "t": str(state.now)}
        if sent.group:
            attrs["participant"] = str(reader.address_in(sent.group.space))
        for device in sent.sender.devices.values():
            state.deliver(device, Node("receipt", attrs))


def _recipient(sent: OutgoingMessage) -> Phone | Group:
    return sent.group or sent.others[0]


def relay(
    state: ServerState, source: Device, device: Device, to: Phone | Group, *, stanza: Node, encs: list[Node]
) -> None:
    """Relay a copy to another linked device."""
    sender, receiver = state.accounts.phone(source.phone), state.accounts.phone(device.phone)
    attrs = {"id": stanza.attr("id"), "t": str(state.now), "type": stanza.attr("type") or "text", "notify": sender.name}
    if isinstance(to, Group):
        attrs |= addressing.in_group(to, sender, source.number)
    elif receiver is sender:
        attrs |= addressing.own_copy(sender, to, source.number)
    else:
        attrs |= addressing.in_chat(receiver, sender, source.number)
    body = list(encs)
    identity = stanza.child("device-identity")
    if identity:
        body.append(identity)
    state.deliver(device, Node("message", attrs, body))


def _resend(state: ServerState, sender: Phone, source: Device, to: Jid, stanza: Node) -> None:
    """Relay a retried copy to the one device that requested it."""
    target = jid.parse(stanza.attr("participant")) if to.is_group else to
    device = state.accounts.device(target) if target else None
    if device is None:
        return
    chat: Phone | Group | None
    if to.is_group:
        chat = state.groups.get(str(to))
    else:
        named = jid.parse(stanza.attr("recipient")) if device.phone == sender.number else None
        chat = state.accounts.find(named or to)
    if chat:
        relay(state, source, device, chat, stanza=stanza, encs=stanza.children("enc"))


def _current_devices(sent: OutgoingMessage) -> str | None:
    """Return the hash of the devices of both accounts. Whoever wrote to others has an old list."""
    if sent.group:
        return None
    people = {phone.number: phone for phone in (*sent.others, sent.sender)}
    return device_lists.participant_hash(
        one for phone in people.values() for one in device_lists.addresses(phone, sent.sender.space)
    )


def _ack(state: ServerState, stanza: Node, error: int | None = None, phash: str | None = None) -> Node:
    where = {"class": "message", "id": stanza.attr("id"), "from": stanza.attr("to")}
    return node("ack", {**where, "t": state.now, "error": error, "phash": phash})
