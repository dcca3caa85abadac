"""Logging in: who may, what the client is told first, and what a phone sends to a device that is new."""

import hmac
import zlib

from wa_orchestrator.simulator.phones import encryption
from wa_orchestrator.simulator.protocol import jid, protobuf
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.protocol.protobuf import Fields
from wa_orchestrator.simulator.whatsapp import device_notifications, pairing
from wa_orchestrator.simulator.whatsapp.accounts import Device, Phone
from wa_orchestrator.simulator.whatsapp.connection import Connection
from wa_orchestrator.simulator.whatsapp.state import Hub, from_server, new_message_id

#: Faults that refuse a login: kind → failure code where none is given.
_REFUSALS = {"ban": 403, "temporary_ban": 402, "refuse_login": 401, "outdated": 405, "unavailable": 503}
_TEMPORARY_BAN_S = 3600


def arrive(hub: Hub, connection: Connection, payload: Fields) -> None:
    """Take a client whose handshake is over: it registers, or logs in."""
    is_registration = 19 in payload
    phone = None if is_registration else str(payload.number(1))
    if hub.faults.active("drop", phone):
        connection.abort()
        return
    refusal = _refusal(hub, phone, is_registration=is_registration)
    if refusal:
        connection.end_with(refusal)
    elif is_registration:
        pairing.offer(hub, connection, payload)
    else:
        _log_in(hub, connection, payload)


def _refusal(hub: Hub, phone: str | None, *, is_registration: bool) -> Node | None:
    kinds = ("outdated", "unavailable") if is_registration else _REFUSALS
    for kind in kinds:
        fault = hub.faults.active(kind, phone)
        if fault is None:
            continue
        hub.faults.use(fault)
        code = fault.code or _REFUSALS[kind]
        attrs: dict[str, str | int | None] = {"reason": code, "location": "sim"}
        if code == 402:
            left = fault.until - hub.clock() if fault.until else _TEMPORARY_BAN_S
            attrs |= {"code": "101", "expire": round(left)}
        return node("failure", attrs)
    return None


def _log_in(hub: Hub, connection: Connection, payload: Fields) -> None:
    number, device_number = str(payload.number(1)), payload.number(18)
    address = jid.of_phone(number, device_number)
    device = hub.accounts.device(address)
    if device is None or not hmac.compare_digest(device.noise, connection.client_static):
        connection.end_with(node("failure", {"reason": "401", "location": "sim"}))
        return
    older = hub.online.get((number, device_number))
    if older:
        replace(older)
    connection.phone, connection.device = number, device
    hub.online[number, device_number] = connection
    greeting = {"lid": str(device.address(jid.LID)), "props": "27", "location": "sim"}
    connection.send(node("success", {**greeting, "t": hub.now, "creation": int(device.linked_at)}))


def replace(connection: Connection) -> None:
    """Tell a client that a newer connection has taken its place (440)."""
    connection.end_with(node("stream:error", {"code": "440"}, [node("conflict", {"type": "replaced"})]))


def become_active(hub: Hub, connection: Connection) -> None:
    """Send what waited for the device, and to a new one what its phone shares with it."""
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
        hub.changed(device.phone)
        _bootstrap(hub, hub.accounts.phone(device.phone), device)
        device_notifications.announce_added(hub, device)


def _bootstrap(hub: Hub, phone: Phone, device: Device) -> None:
    phone.app_state.name_account(phone.name, int(hub.clock() * 1000))
    state = phone.app_state
    key_data: protobuf.Layout = {1: state.key, 2: {1: 1, 2: 0, 3: b"\0"}, 3: int(hub.clock() * 1000)}
    key_share = protobuf.encode({12: {2: 6, 7: {1: {1: {1: state.key_id}, 2: key_data}}}})
    names = [{1: str(phone.address), 2: phone.name}]
    history = zlib.compress(protobuf.encode({1: 0, 5: 1, 6: 100, 7: names}))
    notification = protobuf.encode({12: {2: 5, 6: {6: 0, 7: 1, 9: 100, 11: history}}})
    attrs = {"category": "peer", "push_priority": "high", "notify": phone.name, "type": "text"}
    for message in (key_share, notification):
        enc = encryption.encrypt_for(phone, device, message)
        header = {"from": str(phone.address), "id": new_message_id(), "t": str(hub.now), **attrs}
        hub.deliver(device, Node("message", header, [enc]))
