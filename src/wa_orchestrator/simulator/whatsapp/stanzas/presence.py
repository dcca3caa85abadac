"""Who is online, who is typing, and who is told so."""

from wa_orchestrator.simulator.protocol import jid
from wa_orchestrator.simulator.protocol.binary_xml import Node, node
from wa_orchestrator.simulator.whatsapp.accounts import Phone
from wa_orchestrator.simulator.whatsapp.connection import Connection
from wa_orchestrator.simulator.whatsapp.stanzas import groups
from wa_orchestrator.simulator.whatsapp.state import ServerState


def handle_presence(state: ServerState, connection: Connection, stanza: Node) -> None:
    """Handle what a device says of itself, or whose presence it wants to be told."""
    kind = stanza.attr("type") or "available"  # without a type it is available, as everywhere in XMPP
    if connection.phone is None:
        return
    if kind in ("subscribe", "unsubscribe"):
        _watch(state, connection, stanza.attr("to"), is_on=kind == "subscribe")
    elif kind in ("available", "unavailable"):
        account = state.accounts.phone(connection.phone)
        account.name = stanza.attr("name") or account.name
        entry = {"from": connection.phone, "to": None, "state": kind, "typed": bool(stanza.attr("type"))}
        state.ledger.record_chatstate(at=state.clock(), **entry)
        set_available(state, connection, is_available=kind == "available")


def set_available(state: ServerState, connection: Connection, *, is_available: bool) -> None:
    """Note whether a device is available. An account is as long as one of its devices is; whoever asked is told."""
    if connection.phone is None or connection.available == is_available:
        return
    account = state.accounts.phone(connection.phone)
    was_online = _is_online(state, account)
    connection.available = is_available
    if was_online == _is_online(state, account):
        return
    if was_online:
        account.last_seen = state.now
    for watcher in state.connections.values():
        if account.number in watcher.watched:
            _tell(state, watcher, account)


def _is_online(state: ServerState, account: Phone) -> bool:
    return any(one.available for one in state.connections_of(account.number))


def _watch(state: ServerState, watcher: Connection, to: str, *, is_on: bool) -> None:
    address = jid.parse(to)
    account = None if address is None or address.is_group else state.accounts.find(address)
    if account is None:
        return
    if not is_on:
        watcher.watched.discard(account.number)
        return
    watcher.watched.add(account.number)
    _tell(state, watcher, account)


def _tell(state: ServerState, watcher: Connection, account: Phone) -> None:
    """Tell a device whether a person is online, and if not, since when, where that is known."""
    space = state.accounts.phone(watcher.phone or "").space
    away = {"type": "unavailable", "last": account.last_seen}
    attrs = {"from": str(account.address_in(space)), **({} if _is_online(state, account) else away)}
    watcher.send(node("presence", attrs))


def handle_chatstate(state: ServerState, connection: Connection, stanza: Node) -> None:
    """Record that a device is typing, and forward it to the devices of the recipient, or of a group's other members."""
    to, typed = jid.parse(stanza.attr("to")), next(iter(stanza.children()), None)
    if connection.phone is None or to is None or typed is None:
        return
    word = "recording" if typed.attr("media") == "audio" else typed.tag
    other = None if to.is_group else state.accounts.find(to)
    name = other.number if other else str(to)
    state.ledger.record_chatstate(at=state.clock(), **{"from": connection.phone, "to": name}, state=word)
    author, group = state.accounts.phone(connection.phone), state.groups.get(str(to))
    if group:
        names = {"from": group.address, "participant": groups.participant_names(group, author)["participant"]}
        _forward(state, [state.accounts.phone(one) for one in group.members if one != author.number], names, typed)
    elif other:
        _forward(state, [other], {"from": str(author.address_in(other.space))}, typed)


def _forward(state: ServerState, people: list[Phone], names: dict[str, str], typed: Node) -> None:
    for device in (device for person in people for device in person.devices.values()):
        there = state.online.get((device.phone, device.number))
        if there and there.active:
            there.send(Node("chatstate", names, [typed]))
