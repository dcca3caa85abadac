"""Device notifications: contacts have cached the devices of an account and must learn of changes."""

from wa_orchestrator.simulator.protocol import jid
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.whatsapp.accounts import Device
from wa_orchestrator.simulator.whatsapp.stanzas import device_lists
from wa_orchestrator.simulator.whatsapp.state import ServerState


def announce_added(state: ServerState, device: Device) -> None:
    _announce(state, device, "add")


def announce_removed(state: ServerState, device: Device) -> None:
    _announce(state, device, "remove")


def _announce(state: ServerState, device: Device, change: str) -> None:
    if state.faults.active("no_device_news", device.phone):
        return
    phone = state.accounts.phone(device.phone)
    hashes = {
        "device_hash": device_lists.hash_of(phone, jid.SERVER),
        "device_lid_hash": device_lists.hash_of(phone, jid.LID),
    }
    names = {"jid": str(device.address()), "lid": str(device.address(jid.LID))}
    body = [node("device", {**names, "key-index": device.number})]
    if phone.devices:
        body.append(node("key-index-list", {"ts": state.now}, device_lists.key_index_list(state, phone)))
    for number in sorted({phone.number, *phone.contacts}):
        for other in state.accounts.phone(number).devices.values():
            if other is device:
                continue
            attrs = {"from": str(phone.address), "lid": str(phone.address_in(jid.LID)), "type": "devices"}
            attrs |= {"id": state.next_id(), "t": str(state.now)}
            state.deliver(other, Node("notification", attrs, [Node(change, hashes, body)]))
