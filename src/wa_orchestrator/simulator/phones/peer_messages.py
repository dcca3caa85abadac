"""Messages of a phone to its own linked devices, which nobody sees: keys, history, the move to LIDs."""

import zlib

from wa_orchestrator.simulator.errors import ProtocolError
from wa_orchestrator.simulator.phones import encryption
from wa_orchestrator.simulator.protocol import jid, message_content, protobuf
from wa_orchestrator.simulator.protocol.binary_xml import Node
from wa_orchestrator.simulator.protocol.protobuf import ProtobufFields
from wa_orchestrator.simulator.whatsapp.accounts import Device, Phone
from wa_orchestrator.simulator.whatsapp.stanzas import trust_tokens
from wa_orchestrator.simulator.whatsapp.state import ServerState, new_message_id

_PROTOCOL = 12
_KEY_SHARE, _HISTORY, _LID_MAPPINGS = 6, 5, 22
_REQUEST, _RESPONSE = 16, 17
_RESEND = 4
_RECENT, _PUSH_NAME = 3, 4


def send(state: ServerState, phone: Phone, device: Device, message: protobuf.Layout) -> None:
    """Send a protocol message to one device. It goes by the phone's number, whatever the account."""
    enc = encryption.encrypt_for(phone, device, protobuf.encode({_PROTOCOL: message}))
    attrs = {"category": "peer", "push_priority": "high", "notify": phone.name, "type": "text"}
    header = {"from": str(phone.address), "id": new_message_id(), "t": str(state.now), **attrs}
    state.deliver(device, Node("message", header, [enc]))


def send_first(state: ServerState, phone: Phone, device: Device) -> None:
    """Send what a new device needs: the key of the app state, and the first part of the history."""
    now_ms = int(state.clock() * 1000)
    phone.app_state.name_account(phone.name, now_ms)
    phone.app_state.add_salt(phone.first_contact_salt, now_ms)
    key_id, key = phone.app_state.key_id, phone.app_state.key
    key_data: protobuf.Layout = {1: key, 2: {1: 1, 2: 0, 3: b"\0"}, 3: now_ms}
    send(state, phone, device, {2: _KEY_SHARE, 7: {1: {1: {1: key_id}, 2: key_data}}})
    names = [{1: str(phone.address), 2: phone.name}]
    history = zlib.compress(protobuf.encode({1: 0, 5: 1, 6: 100, 7: names, **_namings(state, phone)}))
    send(state, phone, device, {2: _HISTORY, 6: {6: 0, 7: 1, 9: 100, 11: history}})
    others = [one for one in _known(state, phone) if one is not phone]
    if not others:
        return
    called = [{1: str(_name_of(phone, one)), 2: one.name} for one in others]
    pushnames = zlib.compress(protobuf.encode({1: _PUSH_NAME, 5: 1, 6: 100, 7: called}))
    send(state, phone, device, {2: _HISTORY, 6: {6: _PUSH_NAME, 7: 1, 9: 100, 11: pushnames}})
    chats = [_chat(state, phone, one) for one in others]
    recent = zlib.compress(protobuf.encode({1: _RECENT, 2: chats, 5: 1, 6: 100}))
    send(state, phone, device, {2: _HISTORY, 6: {6: _RECENT, 7: 1, 9: 100, 11: recent}})


def _name_of(phone: Phone, other: Phone) -> jid.Jid:
    """Return by which name a chat goes: of a person who hides the number there is only the LID."""
    return other.address_in(jid.LID if other.hides_number else phone.space)


def _chat(state: ServerState, phone: Phone, other: Phone) -> protobuf.Layout:
    """Return a chat of the recent history: the token of acquaintance, both names, and its texts, the newest first."""
    name = str(_name_of(phone, other))
    shown = [each for each in state.ledger.inbox(phone.number) if each.get("text") and each["to"] not in state.groups]
    ours = [each for each in shown if other.number in (each["from"], each["to"])]
    told = [(each["id"], each["text"], int(each["fromMe"]), int(each["at"])) for each in reversed(ours)]
    told.append((new_message_id(), "a text from before the device was linked", 0, state.now - 3600))
    texts = [_past_text(name, *each) for each in told]
    given = other.trusted.get(phone.number)
    token: protobuf.Layout = {} if given is None else {21: trust_tokens.token_of(other, phone), 22: int(given)}
    issued = phone.trusted.get(other.number)
    issuance: protobuf.Layout = {} if issued is None else {28: int(issued)}
    names: protobuf.Layout = {} if other.hides_number else {39: str(other.address)}
    return {1: name, 2: texts, 6: 0, 12: told[0][3], **token, **issuance, **names, 42: str(other.address_in(jid.LID))}


def _past_text(chat: str, message_id: str, text: str, own: int, at: int) -> protobuf.Layout:
    key: protobuf.Layout = {1: chat, 2: own, 3: message_id}
    return {1: {1: key, 2: {1: text}, 3: at}, 2: 1}


def migrate(state: ServerState, phone: Phone) -> None:
    """Move an account's one-to-one chats to LIDs, and tell its devices the LIDs of its contacts."""
    phone.migrated = True
    shown = [one for one in _known(state, phone) if not one.hides_number]
    pairs = [{1: int(one.number), 2: int(one.lid), 3: int(one.lid)} for one in shown]
    payload = protobuf.encode({1: pairs, 2: state.now})
    for device in phone.devices.values():
        send(state, phone, device, {2: _LID_MAPPINGS, 23: {1: payload}})
    state.changed(phone.number)


def answer(state: ServerState, phone: Phone, device: Device, stanza: Node) -> None:
    """Answer a device that asks its own phone for messages which reached it without content."""
    participants = stanza.child("participants")
    copies = (
        [part.children("enc") for part in participants.children("to")] if participants else [stanza.children("enc")]
    )
    for enc in [enc for encs in copies for enc in encs]:
        try:
            _, message = message_content.unwrap(encryption.decrypt(phone, (device.phone, device.number), enc))
        except ProtocolError:
            continue
        request = message.message(_PROTOCOL).message(_REQUEST)
        if request.number(1) == _RESEND and not state.faults.active("no_resend", phone.number):
            _resend_absent(state, phone, device, stanza.attr("id"), request)


def _resend_absent(state: ServerState, phone: Phone, device: Device, asked_in: str, request: ProtobufFields) -> None:
    results: list[protobuf.Layout] = []
    for wanted in request.all(5):
        key = protobuf.decode(wanted).message(1)
        chat, message_id = jid.parse(key.text(1)), key.text(3)
        author = state.accounts.find(chat) if chat else None
        known = state.outgoing.get((author.number, message_id)) if author else None
        if author and known:
            named: protobuf.Layout = {1: key.text(1), 2: 0, 3: message_id}
            info = protobuf.encode({1: named, 2: known[1], 3: state.now, 19: author.name})
            results.append({4: {1: info}})
    if results:
        send(state, phone, device, {2: _RESPONSE, 17: {1: _RESEND, 2: asked_in, 3: results}})


def _known(state: ServerState, phone: Phone) -> list[Phone]:
    return [state.accounts.phone(number) for number in sorted({phone.number, *phone.contacts})]


def _namings(state: ServerState, phone: Phone) -> protobuf.Layout:
    """Return the fields of a history sync about LIDs: those of its contacts, and when the account moved to them."""
    shown = [one for one in _known(state, phone) if not one.hides_number]
    pairs = [{1: str(one.address), 2: str(one.address_in(jid.LID))} for one in shown]
    return {15: pairs, 19: phone.first_contact_salt, **({8: {20: state.now}} if phone.migrated else {})}
