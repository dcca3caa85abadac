"""Groups and their members, and queries about them."""

import secrets
from dataclasses import dataclass, field

from wa_orchestrator.simulator.errors import ProtocolError, SimulatorError
from wa_orchestrator.simulator.protocol import jid
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.whatsapp.state import ServerState, from_server


@dataclass(slots=True)
class Group:
    """A group; members are phone numbers, the first is its owner."""

    id: str
    subject: str
    created: int
    members: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"{self.id}@{jid.GROUP}"


def create(state: ServerState, owner: str, subject: str, members: list[str]) -> Group:
    """Create a group and notify the devices of all members."""
    numbers = list(dict.fromkeys([owner, *members]))
    for number in numbers:
        state.accounts.phone(number)
    group = Group(f"120363{secrets.randbelow(10**12):012}", subject, state.now, numbers)
    state.groups[group.address] = group
    for number in numbers:
        for device in state.accounts.phone(number).devices.values():
            attrs = {
                "from": group.address,
                "type": "w:gp2",
                "id": state.next_id(),
                "t": str(state.now),
                "participant": str(jid.of_phone(owner)),
            }
            state.deliver(device, Node("notification", attrs, [node("create", {}, [describe(state, group)])]))
    return group


def find(state: ServerState, address: str) -> Group:
    """Return a group. Raises SimulatorError if there is none."""
    group = state.groups.get(address)
    if group is None:
        raise SimulatorError("UNKNOWN_GROUP", f"There is no group {address!r}.")
    return group


def describe(state: ServerState, group: Group) -> Node:
    participants = [
        node(
            "participant",
            {
                "jid": str(jid.of_phone(number)),
                "lid": f"{state.accounts.phone(number).lid}@{jid.LID}",
                "type": "superadmin" if number == group.members[0] else None,
            },
        )
        for number in group.members
    ]
    attrs: dict[str, str | int | None] = {
        "id": group.id,
        "subject": group.subject,
        "creation": group.created,
        "creator": str(jid.of_phone(group.members[0])),
        "s_t": group.created,
        "s_o": str(jid.of_phone(group.members[0])),
        "size": len(group.members),
        "addressing_mode": "pn",
    }
    return node("group", attrs, participants)


def answer(state: ServerState, phone: str | None, stanza: Node) -> Node:
    """Answer a query about groups, or create one."""
    if phone is None:
        raise ProtocolError("groups are for linked devices")
    to, request_id = stanza.attr("to"), stanza.attr("id")
    attrs = {"type": "result", "id": request_id}
    if stanza.child("participating"):
        mine = [describe(state, group) for group in state.groups.values() if phone in group.members]
        return from_server("iq", attrs, [node("groups", content=mine)])
    wish = stanza.child("create")
    if wish:
        members = [address.user for part in wish.children("participant") if (address := jid.parse(part.attr("jid")))]
        group = create(state, phone, wish.attr("subject"), members)
        return from_server("iq", attrs, [describe(state, group)])
    known = state.groups.get(to)
    if known is None or phone not in known.members:
        error = node("error", {"code": "404", "text": "item-not-found"})
        return Node("iq", {"from": to, "type": "error", "id": request_id}, [error])
    return Node("iq", {"from": to, "type": "result", "id": request_id}, [describe(state, known)])
