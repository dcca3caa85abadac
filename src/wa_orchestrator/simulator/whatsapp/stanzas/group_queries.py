"""Queries of linked devices about groups: list, describe, create, rename, leave, remove, invite, answer requests."""

import secrets
from collections.abc import Callable

from wa_orchestrator.simulator.errors import ProtocolError, QueryRefusedError
from wa_orchestrator.simulator.protocol import jid
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.whatsapp.accounts import Phone
from wa_orchestrator.simulator.whatsapp.connection import Connection
from wa_orchestrator.simulator.whatsapp.stanzas import groups
from wa_orchestrator.simulator.whatsapp.stanzas.groups import Group
from wa_orchestrator.simulator.whatsapp.state import ServerState

Act = Callable[[ServerState, Group, Phone, Node], list[Node]]


def answer(state: ServerState, connection: Connection, stanza: Node) -> list[Node]:
    """Answer a query about groups, or carry out a change."""
    if connection.phone is None:
        raise ProtocolError("groups are for linked devices")
    phone, to = state.accounts.phone(connection.phone), stanza.attr("to")
    if stanza.child("participating"):
        mine = [groups.describe(state, group) for group in state.groups.values() if phone.number in group.members]
        return [node("groups", content=mine)]
    if wish := stanza.child("create"):
        addresses = [jid.parse(part.attr("jid")) for part in wish.children("participant")]
        people = [state.accounts.find(address) for address in addresses if address]
        made = groups.create(state, phone.number, wish.attr("subject"), [person.number for person in people if person])
        return [groups.describe(state, made)]
    if leave := stanza.child("leave"):
        return _leave(state, phone, leave)
    if (code := stanza.child("invite")) and code.attr("code"):
        return [node("group", {"jid": _join(state, phone, code.attr("code")).address})]
    group = state.groups.get(to)
    if group is None:
        raise QueryRefusedError(404, "item-not-found")
    if phone.number not in group.members:
        raise QueryRefusedError(403, "forbidden")
    if stanza.child("query"):
        return [groups.describe(state, group)]
    for name, act in _ADMINS.items():
        if part := stanza.child(name):
            if not group.is_admin(phone.number):
                raise QueryRefusedError(401, "not-authorized")
            return act(state, group, phone, part if stanza.attr("type") == "set" else stanza)
    raise QueryRefusedError(400, "bad-request")


def _leave(state: ServerState, phone: Phone, leave: Node) -> list[Node]:
    left = []
    for part in leave.children("group"):
        group = state.groups.get(part.attr("id"))
        if group is None or phone.number not in group.members:
            raise QueryRefusedError(404, "item-not-found")
        groups.remove(state, group, phone, phone)
        left.append(node("group", {"id": group.address}))
    return [node("leave", {}, left)]


def _join(state: ServerState, phone: Phone, code: str) -> Group:
    group = by_invite(state, code)
    if group is None:
        raise QueryRefusedError(406, "not-acceptable")
    groups.join(state, group, phone)
    return group


def by_invite(state: ServerState, code: str) -> Group | None:
    """Return the group whose link has this end."""
    return next((group for group in state.groups.values() if group.invite and group.invite == code), None)


def _rename(state: ServerState, group: Group, phone: Phone, part: Node) -> list[Node]:
    group.subject = part.content.decode() if isinstance(part.content, bytes) else ""
    groups.notify(state, group, phone, node("subject", {"subject": group.subject, "s_t": state.now}))
    return []


def _remove(state: ServerState, group: Group, phone: Phone, part: Node) -> list[Node]:
    done = []
    for name, person in _people(state, part):
        is_in = person is not None and person.number in group.members
        if person is not None and is_in:
            groups.remove(state, group, person, phone)
        done.append(node("participant", {"jid": name, "error": None if is_in else "404"}))
    return [node("remove", {}, done)]


def _invite(_state: ServerState, group: Group, _phone: Phone, asked: Node) -> list[Node]:
    # A new link is asked for with the bare element; the question comes whole.
    if asked.tag == "invite" or not group.invite:
        group.invite = secrets.token_urlsafe(16)
    return [node("invite", {"code": group.invite})]


def _requests(state: ServerState, group: Group, _phone: Phone, _asked: Node) -> list[Node]:
    asked = [
        node(
            "membership_approval_request", {**groups.names_in(group, state.accounts.phone(number)), "request_time": at}
        )
        for number, at in group.requests.items()
    ]
    return [node("membership_approval_requests", {}, asked)]


def _answer_requests(state: ServerState, group: Group, _phone: Phone, part: Node) -> list[Node]:
    answered = []
    for how in ("approve", "reject"):
        if (wish := part.child(how)) is None:
            continue
        done = []
        for name, person in _people(state, wish):
            has_asked = person is not None and group.requests.pop(person.number, None) is not None
            if person is not None and has_asked and how == "approve":
                groups.add(state, group, person)
            done.append(node("participant", {"jid": name, "error": None if has_asked else "404"}))
        answered.append(node(how, {}, done))
    return [node("membership_requests_action", {}, answered)]


def _set_approval(_state: ServerState, group: Group, _phone: Phone, part: Node) -> list[Node]:
    wish = part.child("group_join")
    group.approval = wish is not None and wish.attr("state") == "on"
    return []


def _people(state: ServerState, part: Node) -> list[tuple[str, Phone | None]]:
    names = [each.attr("jid") for each in part.children("participant")]
    parsed = [(name, jid.parse(name)) for name in names]
    return [(name, state.accounts.find(address) if address else None) for name, address in parsed]


#: What an admin may do, by the element that asks for it.
_ADMINS: dict[str, Act] = {
    "subject": _rename,
    "remove": _remove,
    "invite": _invite,
    "membership_approval_requests": _requests,
    "membership_requests_action": _answer_requests,
    "membership_approval_mode": _set_approval,
}
