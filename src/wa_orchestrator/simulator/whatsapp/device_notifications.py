"""Telling others that an account gained or lost a device: who has cached its devices would else miss the new one."""

from wa_orchestrator.simulator.protocol import jid
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.whatsapp.accounts import Device
from wa_orchestrator.simulator.whatsapp.state import Hub


def announce_added(hub: Hub, device: Device) -> None:
    _announce(hub, device, "add")


def announce_removed(hub: Hub, device: Device) -> None:
    _announce(hub, device, "remove")


def _announce(hub: Hub, device: Device, change: str) -> None:
    phone = hub.accounts.phone(device.phone)
    entries = [
        node("device", {"jid": str(device.address(server)), "key-index": device.number})
        for server in (jid.SERVER, jid.LID)
    ]
    for number in sorted({phone.number, *phone.contacts}):
        for other in hub.accounts.phone(number).devices.values():
            if other is device:
                continue
            attrs = {"from": str(phone.address), "type": "devices", "id": hub.next_id(), "t": str(hub.now)}
            hub.deliver(other, Node("notification", attrs, [Node(change, {}, entries)]))
