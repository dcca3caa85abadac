"""Device notifications: contacts have cached the devices of an account and must learn of changes."""

from wa_orchestrator.simulator.protocol import jid
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.whatsapp.accounts import Device
from wa_orchestrator.simulator.whatsapp.state import ServerState


def announce_added(state: ServerState, device: Device) -> None:
    _announce(state, device, "add")


def announce_removed(state: ServerState, device: Device) -> None:
    _announce(state, device, "remove")


def _announce(state: ServerState, device: Device, change: str) -> None:
    phone = state.accounts.phone(device.phone)
    entries = [
        node("device", {"jid": str(device.address(server)), "key-index": device.number})
        for server in (jid.SERVER, jid.LID)
    ]
    for number in sorted({phone.number, *phone.contacts}):
        for other in state.accounts.phone(number).devices.values():
            if other is device:
                continue
            attrs = {"from": str(phone.address), "type": "devices", "id": state.next_id(), "t": str(state.now)}
            state.deliver(other, Node("notification", attrs, [Node(change, {}, entries)]))
