"""Groups and their members, and queries about them."""

import secrets
from dataclasses import dataclass, field

from wa_orchestrator.simulator.errors import ProtocolError, SimulatorError
from wa_orchestrator.simulator.protocol import jid
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.whatsapp.accounts import Phone
from wa_orchestrator.simulator.whatsapp.state import ServerState, from_server


@dataclass(slots=True)
class Group:
    """A group; members are phone numbers, the first is its owner. Its mode names its members: `lid` or `pn`."""

    id: str
    subject: str
    created: int
    members: list[str] = field(default_factory=list)
    mode: str = "pn"

    @property
    def address(self) -> str:
        return f"{self.id}@{jid.GROUP}"

    @property
    def space(self) -> str:
        """The server of its members' JIDs."""
        return jid.LID if self.mode == "lid" else jid.SERVER


def create(state: ServerState, owner: str, subject: str, members: list[str], mode: str | None = None) -> Group:
    """Create a group and notify the devices of all members. Without a mode it is that of the owner's account."""
    numbers = list(dict.fromkeys([owner, *members]))
    for number in numbers:
        state.accounts.phone(number)
    creator = state.accounts.phone(owner)
    mode = mode or ("lid" if creator.migrated else "pn")
    group = Group(f"120363{secrets.randbelow(10**12):012}", subject, state.now, numbers, mode)
    state.groups[group.address] = group
    for number in numbers:
        for device in state.accounts.phone(number).devices.values():
            attrs = {"from": group.address, "type": "w:gp2", "id": state.next_id(), "t": str(state.now)}
            attrs |= participant_names(group, creator)
            state.deliver(device, Node("notification", attrs, [node("create", {}, [describe(state, group)])]))
    return group


def participant_names(group: Group, phone: Phone, device: int | None = None) -> dict[str, str]:
    """Return the attributes of a stanza that name a member of a group, by both names."""
    other = "participant_pn" if group.mode == "lid" else "participant_lid"
    return {
        "participant": str(phone.address_in(group.space)._replace(device=device)),
        other: str(phone.address_in(jid.other_space(group.space))),
        "addressing_mode": group.mode,
    }


def find(state: ServerState, address: str) -> Group:
    """Return a group. Raises SimulatorError if there is none."""
    group = state.groups.get(address)
    if group is None:
        raise SimulatorError("UNKNOWN_GROUP", f"There is no group {address!r}.")
    return group


def describe(state: ServerState, group: Group) -> Node:
    other = "phone_number" if group.mode == "lid" else "lid"
    participants = []
    for number in group.members:
        phone = state.accounts.phone(number)
        attrs: dict[str, str | int | None] = {
            "jid": str(phone.address_in(group.space)),
            other: str(phone.address_in(jid.other_space(group.space))),
            "type": "superadmin" if number == group.members[0] else None,
        }
        participants.append(node("participant", attrs))
    owner = state.accounts.phone(group.members[0])
    described: dict[str, str | int | None] = {
        "id": group.id,
        "subject": group.subject,
        "creation": group.created,
        "creator": str(owner.address_in(group.space)),
        "s_t": group.created,
        "s_o": str(owner.address_in(group.space)),
        "size": len(group.members),
        "addressing_mode": group.mode,
    }
    if group.mode == "lid":
        described |= {"creator_pn": str(owner.address), "s_o_pn": str(owner.address)}
    return node("group", described, participants)


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
        addresses = [jid.parse(part.attr("jid")) for part in wish.children("participant")]
        people = [state.accounts.find(address) for address in addresses if address]
        group = create(state, phone, wish.attr("subject"), [person.number for person in people if person])
        return from_server("iq", attrs, [describe(state, group)])
    known = state.groups.get(to)
    if known is None or phone not in known.members:
        error = node("error", {"code": "404", "text": "item-not-found"})
        return Node("iq", {"from": to, "type": "error", "id": request_id}, [error])
    return Node("iq", {"from": to, "type": "result", "id": request_id}, [describe(state, known)])
