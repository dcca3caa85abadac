"""Groups and their members: made, described, joined, left."""

import secrets
from dataclasses import dataclass, field

from wa_orchestrator.simulator.errors import SimulatorError
from wa_orchestrator.simulator.protocol import jid
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.whatsapp.accounts import Phone
from wa_orchestrator.simulator.whatsapp.state import ServerState


@dataclass(slots=True)
class Group:
    """A group; members are phone numbers, the first is its owner. Its mode names its members: `lid` or `pn`."""

    id: str
    subject: str
    created: int
    members: list[str] = field(default_factory=list)
    mode: str = "pn"
    #: The end of its link; '' until somebody asks for it.
    invite: str = ""
    approval: bool = False
    #: Who asked to join, and when.
    requests: dict[str, int] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"{self.id}@{jid.GROUP}"

    @property
    def space(self) -> str:
        """The server of its members' JIDs."""
        return jid.LID if self.mode == "lid" else jid.SERVER

    def is_admin(self, number: str) -> bool:
        """Whether a member may change the group: its owner, or whoever has been in it longest since."""
        return self.members[:1] == [number]


def create(state: ServerState, owner: str, subject: str, members: list[str], mode: str | None = None) -> Group:
    """Create a group and notify the devices of all members. Without a mode it is that of the owner's account."""
    numbers = list(dict.fromkeys([owner, *members]))
    for number in numbers:
        state.accounts.phone(number)
    creator = state.accounts.phone(owner)
    mode = mode or ("lid" if creator.migrated else "pn")
    group = Group(f"120363{secrets.randbelow(10**12):012}", subject, state.now, numbers, mode)
    state.groups[group.address] = group
    notify(state, group, creator, node("create", {}, [describe(state, group)]))
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
    participants = []
    for number in group.members:
        kind = {"type": "superadmin" if group.is_admin(number) else None}
        participants.append(node("participant", {**names_in(group, state.accounts.phone(number)), **kind}))
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
    approval = [node("membership_approval_mode", {}, [node("group_join", {"state": "on"})])] if group.approval else []
    return node("group", described, [*participants, *approval])


def join(state: ServerState, group: Group, phone: Phone) -> str:
    """Let a person in who has the link, or note that they ask. Returns `joined` or `asked`."""
    if phone.number in group.members:
        return "joined"
    if group.approval:
        group.requests[phone.number] = state.now
        return "asked"
    add(state, group, phone)
    return "joined"


def add(state: ServerState, group: Group, phone: Phone) -> None:
    group.requests.pop(phone.number, None)
    group.members.append(phone.number)
    notify(state, group, phone, node("add", {"reason": "invite"}, [node("participant", names_in(group, phone))]))


def remove(state: ServerState, group: Group, phone: Phone, by: Phone) -> None:
    """Take a member out; they are told too."""
    notify(state, group, by, node("remove", {}, [node("participant", names_in(group, phone))]))
    group.members.remove(phone.number)


def notify(state: ServerState, group: Group, by: Phone, change: Node) -> None:
    """Tell the devices of all members what somebody changed."""
    for number in group.members:
        for device in state.accounts.phone(number).devices.values():
            attrs = {"from": group.address, "type": "w:gp2", "id": state.next_id(), "t": str(state.now)}
            state.deliver(device, Node("notification", attrs | participant_names(group, by), [change]))


def names_in(group: Group, phone: Phone) -> dict[str, str]:
    """Return the attributes of a `<participant>`: its name in the group, and the other one."""
    other = "phone_number" if group.mode == "lid" else "lid"
    return {"jid": str(phone.address_in(group.space)), other: str(phone.address_in(jid.other_space(group.space)))}
