"""Login of a client: refusals, the first stanzas, and the initial app state for a new device."""

import hmac
import zlib

from wa_orchestrator.simulator.phones import encryption
from wa_orchestrator.simulator.protocol import jid, protobuf
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.protocol.protobuf import ProtobufFields
from wa_orchestrator.simulator.whatsapp.accounts import Device, Phone
from wa_orchestrator.simulator.whatsapp.connection import Connection
from wa_orchestrator.simulator.whatsapp.stanzas import device_notifications, pairing
from wa_orchestrator.simulator.whatsapp.state import ServerState, from_server, new_message_id

#: Faults that refuse a login: kind → default failure code.
_REFUSALS = {"ban": 403, "temporary_ban": 402, "refuse_login": 401, "outdated": 405, "unavailable": 503}
_TEMPORARY_BAN_S = 3600


def handle_client_payload(state: ServerState, connection: Connection, payload: ProtobufFields) -> None:
    """Handle the client payload of the handshake: registration or login."""
    is_registration = 19 in payload
    phone = None if is_registration else str(payload.number(1))
    if state.faults.active("drop", phone):
        connection.abort()
        return
    refusal = _refusal(state, phone, is_registration=is_registration)
    if refusal:
        connection.end_with(refusal)
    elif is_registration:
        pairing.send_pair_device(state, connection, payload)
    else:
        _log_in(state, connection, payload)


def _refusal(state: ServerState, phone: str | None, *, is_registration: bool) -> Node | None:
    kinds = ("outdated", "unavailable") if is_registration else _REFUSALS
    for kind in kinds:
        fault = state.faults.active(kind, phone)
        if fault is None:
            continue
        state.faults.use(fault)
        code = fault.code or _REFUSALS[kind]
        attrs: dict[str, str | int | None] = {"reason": code, "location": "sim"}
        if code == 402:
            left = fault.until - state.clock() if fault.until else _TEMPORARY_BAN_S
            attrs |= {"code": "101", "expire": round(left)}
        return node("failure", attrs)
    return None


def _log_in(state: ServerState, connection: Connection, payload: ProtobufFields) -> None:
    number, device_number = str(payload.number(1)), payload.number(18)
    address = jid.of_phone(number, device_number)
    device = state.accounts.device(address)
    if device is None or not hmac.compare_digest(device.noise, connection.client_static):
        connection.end_with(node("failure", {"reason": "401", "location": "sim"}))
        return
    older = state.online.get((number, device_number))
    if older:
        end_replaced(older)
    connection.phone, connection.device = number, device
    state.online[number, device_number] = connection
    prekey_message = {"lid": str(device.address(jid.LID)), "props": "27", "location": "sim"}
    connection.send(node("success", {**prekey_message, "t": state.now, "creation": int(device.linked_at)}))


def end_replaced(connection: Connection) -> None:
    """End a connection that was replaced by a newer one (440)."""
    connection.end_with(node("stream:error", {"code": "440"}, [node("conflict", {"type": "replaced"})]))


def become_active(state: ServerState, connection: Connection) -> None:
    """Send pending stanzas, and to a new device the app state of its phone."""
    device = connection.device
    if device is None or connection.active:
        return
    connection.active = True
    waiting = list(device.pending.values())
    for index, stanza in enumerate(waiting):
        connection.send(Node(stanza.tag, {**stanza.attrs, "offline": str(index)}, stanza.content))
    connection.send(from_server("ib", {}, [node("offline", {"count": len(waiting)})]))
    if not device.bootstrapped:
        device.bootstrapped = True
        state.changed(device.phone)
        _bootstrap(state, state.accounts.phone(device.phone), device)
        device_notifications.announce_added(state, device)


def _bootstrap(state: ServerState, phone: Phone, device: Device) -> None:
    phone.app_state.name_account(phone.name, int(state.clock() * 1000))
    app_state = phone.app_state
    key_data: protobuf.Layout = {1: app_state.key, 2: {1: 1, 2: 0, 3: b"\0"}, 3: int(state.clock() * 1000)}
    key_share = protobuf.encode({12: {2: 6, 7: {1: {1: {1: app_state.key_id}, 2: key_data}}}})
    names = [{1: str(phone.address), 2: phone.name}]
    history = zlib.compress(protobuf.encode({1: 0, 5: 1, 6: 100, 7: names}))
    notification = protobuf.encode({12: {2: 5, 6: {6: 0, 7: 1, 9: 100, 11: history}}})
    attrs = {"category": "peer", "push_priority": "high", "notify": phone.name, "type": "text"}
    for message in (key_share, notification):
        enc = encryption.encrypt_for(phone, device, message)
        header = {"from": str(phone.address), "id": new_message_id(), "t": str(state.now), **attrs}
        state.deliver(device, Node("message", header, [enc]))
