"""What an archive of history promises. One process, the leader, writes it; any process that reaches it may read."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from wa_orchestrator.store.history.ended_messages import MessageCopy
from wa_orchestrator.store.messages.incoming_messages import IncomingCopy
from wa_orchestrator.store.messages.message_filters import Filters
from wa_orchestrator.store.messages.message_index import IndexEntry
from wa_orchestrator.store.records import Entry


@dataclass(frozen=True, slots=True)
class Contact:
    """A person by phone and, if it is known, by LID; `phone` is `lid:…` where only that is known."""

    phone: str
    lid: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names under which the archive knows them."""
        return tuple(dict.fromkeys((self.phone, f"lid:{self.lid}"))) if self.lid else (self.phone,)


class Archive(Protocol):
    """Messages, events and incoming messages that have left Redis, or are about to.

    Every method raises `Unavailable` when the archive cannot be reached. What a writing method has stored or erased
    when it returns survives the death of the process and of the machine.
    """

    async def identity(self) -> str:
        """Return the id that the archive got when it was made; '' while there is none at this place."""
        ...

    # -- reading --

    async def page(self, filters: Filters, *, after: IndexEntry | None, most: int) -> list[IndexEntry]:
        """Return the next `most` entries of the narrowest index, the newest first by (accepted at, id).

        All messages that match are among the entries of all pages; whether one does is for the caller to see.
        """
        ...

    async def messages(self, ids: Sequence[str]) -> dict[str, MessageCopy]:
        """Return those of these messages that are here, by id."""
        ...

    async def events(self, after: str, *, most: int) -> list[Entry]:
        """Return the events after a cursor, the oldest first."""
        ...

    async def incoming(self, names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Mapping[str, str]]:
        """Return the fields of incoming messages by (session, WhatsApp id), of those that are here."""
        ...

    async def messages_to(self, contact: Contact, *, after: str, most: int) -> list[MessageCopy]:
        """Return messages to a person by id, after this id."""
        ...

    async def incoming_of(self, contact: Contact, *, after: int, most: int) -> list[tuple[int, IncomingCopy]]:
        """Return incoming messages of a person, the oldest first, each with its place; `after` is a place, or -1."""
        ...

    async def events_of(self, contact: Contact, *, after: str, most: int) -> list[Entry]:
        """Return the events that name a person, the oldest first, after this cursor."""
        ...

    async def incoming_page(
        self, session: str, chats: Sequence[str], *, after: IndexEntry | None, most: int
    ) -> list[IncomingCopy]:
        """Return the next `most` incoming messages of a conversation, the newest first by (received at, id).

        `chats` are the names under which the contact was stored. What changes another message is not among them.
        """
        ...

    async def changes_of(self, session: str, whatsapp_ids: Sequence[str]) -> list[IncomingCopy]:
        """Return incoming reactions, votes, edits and deletions of these messages, the oldest first."""
        ...

    async def search_incoming(self, text: str, *, among: Collection[str] | None, most: int) -> list[IncomingCopy]:
        """Return incoming messages that contain all words of a text, the newest first; `among` are sessions."""
        ...

    # -- writing: the leader alone --

    async def create(self) -> str:
        """Make the archive unless there is one, and return its identity."""
        ...

    async def put_messages(self, copies: Sequence[MessageCopy]) -> None:
        """Store messages, each once: a copy that ended later replaces one that ended earlier, never the reverse."""
        ...

    async def put_events(self, entries: Sequence[Entry]) -> None:
        """Store events, each once."""
        ...

    async def put_incoming(self, copies: Sequence[IncomingCopy]) -> None:
        """Store incoming messages, each once."""
        ...

    async def last_event(self) -> str:
        """Return the cursor up to which events were stored, `0` when none was."""
        ...

    async def erase_texts(self, until_ms: int, *, most: int) -> int:
        """Erase texts of messages that ended, and incoming messages that came, at `until_ms` at the latest."""
        ...

    async def erase_messages(self, until_ms: int, *, most: int) -> int:
        """Erase messages that ended at `until_ms` at the latest. Return how many; so do the others."""
        ...

    async def erase_events(self, until_ms: int, *, most: int) -> int:
        """Erase events that happened at `until_ms` at the latest."""
        ...

    async def erase_contact(self, contact: Contact, messages: Sequence[str], *, most: int) -> int:
        """Erase messages to a person, their incoming messages, and events that name them or one of these messages."""
        ...

    async def shrink(self) -> None:
        """Remove from disk what was erased before, as far as the archive can."""
        ...

    async def copy_to(self, target: Path) -> bool:
        """Write everything into a new file while the archive is in use; False while there is none. Any process may."""
        ...

    async def take_from(self, source: Path) -> None:
        """Add what such a file has and this archive has not. May be repeated."""
        ...

    async def close(self) -> None:
        """Close files and threads. May be called twice."""
        ...
