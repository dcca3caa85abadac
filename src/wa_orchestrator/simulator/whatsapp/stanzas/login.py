"""Login of a client: refusals, the first stanzas, and the initial app state for a new device."""

import hashlib
import hmac
from collections import Counter

from wa_orchestrator.simulator.phones import peer_messages
from wa_orchestrator.simulator.protocol import jid
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.protocol.protobuf import ProtobufFields
from wa_orchestrator.simulator.whatsapp.connection import Connection
from wa_orchestrator.simulator.whatsapp.stanzas import device_notifications, pairing
from wa_orchestrator.simulator.whatsapp.state import ServerState, from_server

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
    revision = payload.message(5).message(2).number(3)
    refusal = _refusal(state, phone, revision, is_registration=is_registration)
    if refusal:
        connection.end_with(refusal)
    elif is_registration:
        pairing.send_pair_device(state, connection, payload)
    else:
        _log_in(state, connection, payload)


def _refusal(state: ServerState, phone: str | None, revision: int, *, is_registration: bool) -> Node | None:
    kinds = ("outdated", "unavailable") if is_registration else _REFUSALS
    for kind in kinds:
        fault = state.faults.active(kind, phone)
        if fault is None or ("below" in fault.extra and revision >= fault.extra["below"]):
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
        silent_ms = round(1000 * (state.clock() - older.heard_at))
        state.ledger.record_replacement(at=state.clock(), phone=number, device=device_number, silentMs=silent_ms)
        end_replaced(older)
    connection.phone, connection.device = number, device
    state.online[number, device_number] = connection
    prekey_message = {"lid": str(device.address(jid.LID)), "props": "27", "location": "sim"}
    connection.send(node("success", {**prekey_message, "t": state.now, "creation": int(device.linked_at)}))
    route = node("routing_info", content=_routing_info(number, device_number))
    connection.send(from_server("ib", {}, [node("edge_routing", content=[route])]))
    if not payload.number(3):  # a passive client says when it wants to get what has waited
        become_active(state, connection)


def _routing_info(number: str, device: int) -> bytes:
    """Return the bytes with which a client is to begin its next connection, so that it reaches the same data centre."""
    return b"\x08" + hashlib.sha256(f"{number}:{device}".encode()).digest()[:7]


def end_replaced(connection: Connection) -> None:
    """End a connection that was replaced by a newer one; clients call this 440, the stanza has no code."""
    connection.end_with(node("stream:error", content=[node("conflict", {"type": "replaced"})]))


def become_active(state: ServerState, connection: Connection) -> None:
    """Send pending stanzas, and to a new device the app state of its phone."""
    device = connection.device
    if device is None or connection.active:
        return
    connection.active = True
    waiting = list(device.pending.values())
    if refused := [stanza for stanza in waiting if stanza.attr("id") in device.refused]:
        waiting = refused  # what was refused comes first, and everything else waits until it is taken
    if waiting:
        connection.send(from_server("ib", {}, [_preview(waiting)]))
    for index, stanza in enumerate(waiting):
        connection.send(Node(stanza.tag, {**stanza.attrs, "offline": str(index)}, stanza.content))
    connection.send(from_server("ib", {}, [node("offline", {"count": len(waiting)})]))
    if not device.bootstrapped:
        device.bootstrapped = True
        state.changed(device.phone)
        peer_messages.send_first(state, state.accounts.phone(device.phone), device)
        device_notifications.announce_added(state, device)


def _preview(waiting: list[Node]) -> Node:
    """Return what the client is about to receive, counted by kind."""
    kinds = Counter(stanza.tag for stanza in waiting)
    counts = {tag: kinds[tag] for tag in ("message", "notification", "receipt")}
    return node("offline_preview", {"count": len(waiting), "appdata": 0, "call": 0, "status": 0, **counts})
