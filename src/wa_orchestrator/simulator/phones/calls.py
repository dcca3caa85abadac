"""Calls of people: offered, taken, ended, rejected by a linked device. Sound is not simulated."""

from wa_orchestrator.simulator.protocol import jid
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.whatsapp.accounts import Device, Phone
from wa_orchestrator.simulator.whatsapp.connection import Connection
from wa_orchestrator.simulator.whatsapp.state import Ringing, ServerState, new_message_id


def offer(state: ServerState, phone: Phone, to: str, *, video: bool) -> str:
    """Call a phone: its devices ring. Returns the id of the call."""
    call_id = new_message_id()
    state.calls[call_id] = Ringing(phone, state.accounts.phone(to))
    parts = [node("audio", {"enc": "opus", "rate": "16000"}), *([node("video", {"enc": "vp8"})] if video else [])]
    _signal(state, phone, to, Node("offer", {"call-id": call_id}, parts))
    return call_id


def end(state: ServerState, phone: Phone, to: str, call_id: str, how: str) -> None:
    """End a call: `hang_up`, `timeout`, `reject`; or `accept` it on another device of the callee."""
    state.calls.pop(call_id, None)
    attrs = {"call-id": call_id, **({"reason": "timeout"} if how == "timeout" else {})}
    _signal(state, phone, to, Node(how if how in ("reject", "accept") else "terminate", attrs))


def handle(state: ServerState, connection: Connection, stanza: Node) -> None:
    """Handle what a linked device says of a call: it rejects it. The caller and the other devices are told."""
    attrs = {"class": "call", "type": "reject", "id": stanza.attr("id"), "from": stanza.attr("to")}
    connection.send(node("ack", attrs))
    reject = stanza.child("reject")
    call = state.calls.pop(reject.attr("call-id"), None) if reject else None
    if reject is None or call is None or connection.phone != call.callee.number:
        return
    call.caller.rejected_calls.append(reject.attr("call-id"))
    ended = Node("terminate", {"call-id": reject.attr("call-id"), "reason": "rejected_elsewhere"})
    _signal(state, call.caller, call.callee.number, ended, but=connection.device)


def _signal(state: ServerState, phone: Phone, to: str, inner: Node, but: Device | None = None) -> None:
    callee = state.accounts.phone(to)
    caller = str(phone.address_in(callee.space))
    inner.attrs["call-creator"] = caller
    if not phone.hides_number:
        other = "caller_pn" if callee.migrated else "caller_lid"
        inner.attrs[other] = str(phone.address_in(jid.other_space(callee.space)))
    for device in (one for one in callee.devices.values() if one is not but):
        state.deliver(device, Node("call", {"from": caller, "id": state.next_id(), "t": str(state.now)}, [inner]))
