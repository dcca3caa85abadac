"""Record of what happened: messages that arrived, inboxes of phones, chat states."""

from collections import OrderedDict, deque
from typing import Any

from wa_orchestrator.simulator.protocol.message_content import Content

_KEPT_STATES = 20_000


class Ledger:
    """Append-only records, for people and for invariants of tests."""

    def __init__(self) -> None:
        self._arrivals: list[dict[str, Any]] = []
        #: (sender, chat, id) → its newest arrival: a repeat may have other content, and the ledger must show it
        self._newest: dict[tuple[str, str, str], dict[str, Any]] = {}
        self._refusals: list[dict[str, Any]] = []
        self._replacements: list[dict[str, Any]] = []
        self._inboxes: dict[str, OrderedDict[tuple[str, str, str], dict[str, Any]]] = {}
        self._states: deque[dict[str, Any]] = deque(maxlen=_KEPT_STATES)

    def record_arrival(self, **entry: Any) -> dict[str, Any]:
        """Record a message that reached WhatsApp. The same id in the same chat from the same sender is a repeat."""
        key = (entry["from"], entry["to"], entry["id"])
        entry = {"n": len(self._arrivals) + 1, **entry, "repeat": key in self._newest}
        self._arrivals.append(entry)
        self._newest[key] = entry
        return entry

    def describe(self, sender: str, to: str, message_id: str, content: Content) -> None:
        """Add the content of a message once a phone has decrypted it."""
        entry = self._newest.get((sender, to, message_id))
        if entry and entry["kind"] == "undecrypted":
            entry.update(text=content.text, kind=content.kind)

    def record_refusal(self, **entry: Any) -> None:
        """Record a message that WhatsApp answered with an error: it did not arrive."""
        self._refusals.append({"n": len(self._refusals) + 1, **entry})

    def record_replacement(self, **entry: Any) -> None:
        """Record a connection that ended because its device logged in once more."""
        self._replacements.append({"n": len(self._replacements) + 1, **entry})

    def arrivals(self, after: int = 0) -> list[dict[str, Any]]:
        return [dict(entry) for entry in self._arrivals[max(after, 0) :]]

    def refusals(self, after: int = 0) -> list[dict[str, Any]]:
        return [dict(entry) for entry in self._refusals[max(after, 0) :]]

    def replacements(self, after: int = 0) -> list[dict[str, Any]]:
        return [dict(entry) for entry in self._replacements[max(after, 0) :]]

    def add_to_inbox(self, phone: str, chat: str, entry: dict[str, Any]) -> bool:
        """Add a message to a phone's inbox, once. Returns whether it is new."""
        inbox = self._inboxes.setdefault(phone, OrderedDict())
        key = (chat, entry["from"], entry["id"])
        if key in inbox:
            inbox[key]["copies"] += 1
            return False
        inbox[key] = {**entry, "chat": chat, "shown": 1, "copies": 1, "read": entry["fromMe"]}
        return True

    def amend(self, phone: str, chat: str, author: str, what: Content) -> None:
        """Apply an edit, a deletion or a reaction to the message that it names, if this phone shows it."""
        target = what.parts.get("target")
        if not target:
            return
        for entry in self._inboxes.get(phone, {}).values():
            if entry["id"] != target["id"] or entry["chat"] != chat:
                continue
            if what.kind == "reaction":
                entry.setdefault("reactions", {})[author] = what.text
            elif entry["from"] != author and what.edit != "8":
                continue  # nobody changes what another wrote
            elif what.edit == "1":
                entry |= {"text": what.text, "edited": True}
            elif what.edit:
                entry |= {"text": None, "deleted": True}

    def inbox(self, phone: str) -> list[dict[str, Any]]:
        return [dict(entry) for entry in self._inboxes.get(phone, {}).values()]

    def take_unread(self, phone: str, of: str | None) -> list[dict[str, Any]]:
        """Mark unread messages (of one sender or chat) as read and return them."""
        unread = [
            entry
            for entry in self._inboxes.get(phone, {}).values()
            if not entry["read"] and of in (None, entry["from"], entry["chat"])
        ]
        for entry in unread:
            entry["read"] = True
        return [dict(entry) for entry in unread]

    def record_receipt(self, phone: str, message_id: str, of: str, state: str) -> None:
        """Record a delivery or read receipt in the sender's inbox."""
        for entry in self._inboxes.get(phone, {}).values():
            if entry["id"] == message_id and entry["fromMe"]:
                entry.setdefault("receipts", {})[of] = state

    def record_chatstate(self, **entry: Any) -> None:
        self._states.append(entry)

    def chatstates(self) -> list[dict[str, Any]]:
        return [dict(entry) for entry in self._states]
