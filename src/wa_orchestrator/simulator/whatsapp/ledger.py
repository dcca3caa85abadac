"""What the outside world saw: arrivals at WhatsApp, what each phone shows, who typed when."""

from collections import OrderedDict, deque
from typing import Any

from wa_orchestrator.simulator.protocol.message_content import Content

_KEPT_STATES = 20_000


class Ledger:
    """Append-only books, for people and for invariants."""

    def __init__(self) -> None:
        self._arrivals: list[dict[str, Any]] = []
        #: (sender, chat, id) → its newest arrival: a repeat may say something else, and the book must show it
        self._newest: dict[tuple[str, str, str], dict[str, Any]] = {}
        self._refusals: list[dict[str, Any]] = []
        self._inboxes: dict[str, OrderedDict[tuple[str, str, str], dict[str, Any]]] = {}
        self._states: deque[dict[str, Any]] = deque(maxlen=_KEPT_STATES)

    def arrive(self, **entry: Any) -> dict[str, Any]:
        """Book a message that reached WhatsApp. The same id in the same chat from the same sender is a repeat."""
        key = (entry["from"], entry["to"], entry["id"])
        entry = {"n": len(self._arrivals) + 1, **entry, "repeat": key in self._newest}
        self._arrivals.append(entry)
        self._newest[key] = entry
        return entry

    def describe(self, sender: str, to: str, message_id: str, content: Content) -> None:
        """Fill in what a message says once somebody could decrypt it."""
        entry = self._newest.get((sender, to, message_id))
        if entry and entry["kind"] == "undecrypted":
            entry.update(text=content.text, kind=content.kind)

    def refuse(self, **entry: Any) -> None:
        """Book a message that WhatsApp answered with an error: it did not arrive."""
        self._refusals.append({"n": len(self._refusals) + 1, **entry})

    def arrivals(self, after: int = 0) -> list[dict[str, Any]]:
        return [dict(entry) for entry in self._arrivals[max(after, 0) :]]

    def refusals(self, after: int = 0) -> list[dict[str, Any]]:
        return [dict(entry) for entry in self._refusals[max(after, 0) :]]

    def show(self, phone: str, chat: str, entry: dict[str, Any]) -> bool:
        """Show a message on a phone; one that is there already is not shown twice. Returns whether it is new."""
        inbox = self._inboxes.setdefault(phone, OrderedDict())
        key = (chat, entry["from"], entry["id"])
        if key in inbox:
            inbox[key]["copies"] += 1
            return False
        inbox[key] = {**entry, "chat": chat, "shown": 1, "copies": 1, "read": entry["fromMe"]}
        return True

    def inbox(self, phone: str) -> list[dict[str, Any]]:
        return [dict(entry) for entry in self._inboxes.get(phone, {}).values()]

    def take_unread(self, phone: str, of: str | None) -> list[dict[str, Any]]:
        """Mark as read what is unread (of one sender or chat) and return it."""
        unread = [
            entry
            for entry in self._inboxes.get(phone, {}).values()
            if not entry["read"] and of in (None, entry["from"], entry["chat"])
        ]
        for entry in unread:
            entry["read"] = True
        return [dict(entry) for entry in unread]

    def receipt(self, phone: str, message_id: str, of: str, state: str) -> None:
        """Note on the sender's phone that a message was delivered to or read by somebody."""
        for entry in self._inboxes.get(phone, {}).values():
            if entry["id"] == message_id and entry["fromMe"]:
                entry.setdefault("receipts", {})[of] = state

    def note_state(self, **entry: Any) -> None:
        self._states.append(entry)

    def states(self) -> list[dict[str, Any]]:
        return [dict(entry) for entry in self._states]
