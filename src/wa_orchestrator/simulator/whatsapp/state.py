"""Shared state of the simulated WhatsApp: accounts, ledger, faults, connections."""

import asyncio
import itertools
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wa_orchestrator.simulator.protocol import jid
from wa_orchestrator.simulator.protocol.binary_xml import Node
from wa_orchestrator.simulator.whatsapp.accounts import Accounts, Device, Phone
from wa_orchestrator.simulator.whatsapp.faults import Faults
from wa_orchestrator.simulator.whatsapp.ledger import Ledger
from wa_orchestrator.simulator.whatsapp.media import MediaHosts, MediaStore

if TYPE_CHECKING:
    from wa_orchestrator.simulator.whatsapp.connection import Connection
    from wa_orchestrator.simulator.whatsapp.stanzas.groups import Group


@dataclass(frozen=True, slots=True)
class Ringing:
    """A call that has not ended."""

    caller: Phone
    callee: Phone


@dataclass(slots=True)
class ServerState:
    """Shared state. It is changed in one event loop only, without awaiting in between."""

    accounts: Accounts
    faults: Faults
    clock: Callable[[], float]
    #: called with the number of a phone whose linked devices changed
    changed: Callable[[str], None]
    ledger: Ledger = field(default_factory=Ledger)
    shelf: MediaStore = field(default_factory=MediaStore)
    media_hosts: MediaHosts = field(default_factory=MediaHosts)
    groups: "dict[str, Group]" = field(default_factory=dict)
    connections: "dict[int, Connection]" = field(default_factory=dict)
    online: "dict[tuple[str, int], Connection]" = field(default_factory=dict)
    #: QR ref → the connection that shows it
    refs: "dict[str, Connection]" = field(default_factory=dict)
    #: set when a device requests a pairing code
    code_asked: asyncio.Event = field(default_factory=asyncio.Event)
    #: messages of phones, for retries: (phone, id) → (chat, message)
    outgoing: dict[tuple[str, str], tuple[str, bytes]] = field(default_factory=dict)
    #: (sender, to, id) of messages for which a phone sent a retry receipt
    retries: set[tuple[str, str, str]] = field(default_factory=set)
    #: (sender, to, id) → number of retry receipts
    asked: dict[tuple[str, str, str], int] = field(default_factory=dict)
    #: (phone, its devices) → the phone's signed key index list
    index_lists: dict[tuple[str, tuple[int, ...]], bytes] = field(default_factory=dict)
    #: id → a call that has not ended
    calls: dict[str, Ringing] = field(default_factory=dict)
    #: hash of AB properties → the properties
    properties: dict[str, dict[int, str]] = field(default_factory=dict)
    #: phone → of how many people its devices have asked for the device list
    device_lookups: Counter[str] = field(default_factory=Counter)
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    @property
    def now(self) -> int:
        return int(self.clock())

    def next_id(self) -> str:
        return f"{self.now}-{next(self._numbers)}"

    def deliver(self, device: Device, stanza: Node) -> None:
        """Send a stanza that the device must ack: now if it is online, else at its next login."""
        device.pending[acknowledgement_key(stanza.tag, stanza)] = stanza
        connection = self.online.get((device.phone, device.number))
        if connection and connection.active:
            connection.send(stanza)

    def acknowledged(self, device: Device, kind: str, stanza: Node) -> None:
        """Remove a stanza that the device has acked: `kind` is message, receipt or notification."""
        device.pending.pop(acknowledgement_key(kind, stanza), None)
        device.refused.discard(stanza.attr("id"))

    def ring(self, phone: Phone) -> None:
        """Notify a phone of a message, unless a linked device is online: then WhatsApp spares the phone."""
        if not any(one.available and not one.ended for one in self.connections_of(phone.number)):
            phone.pushes += 1

    def connections_of(self, phone: str | None) -> "list[Connection]":
        """Return the connections of a phone's devices, or all for None."""
        return [one for one in list(self.connections.values()) if phone is None or one.phone == phone]


def acknowledgement_key(kind: str, stanza: Node) -> str:
    """Return the key that a stanza and its ack have in common: receipts of several people have the same id."""
    if kind != "receipt":
        return f"{kind} {stanza.attr('id')}"
    return " ".join([kind, *(stanza.attr(name) for name in ("id", "type", "participant"))])


def new_message_id() -> str:
    """Return a message id in the format of phones."""
    return "3A" + secrets.token_hex(9).upper()


def from_server(tag: str, attrs: Mapping[str, str], content: list[Node] | bytes | None = None) -> Node:
    """Return a stanza from the server itself."""
    return Node(tag, {"from": jid.SERVER_JID, **attrs}, content)
