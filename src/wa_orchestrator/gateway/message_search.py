"""Searches messages: pages over the indexes, newest first, with bounded work per page."""

from dataclasses import dataclass
from typing import Final

from wa_orchestrator.errors import Refused
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import message_index
from wa_orchestrator.store.messages.message_index import IndexEntry
from wa_orchestrator.store.records import Message
from wa_orchestrator.web import paging

#: Messages examined for one page, however few of them match. The cursor continues from there.
MAX_EXAMINED: Final = 1000
_CHUNK: Final = 200


@dataclass(frozen=True, slots=True)
class Filters:
    """What to search for; None matches everything."""

    to: str | None = None
    session: str | None = None
    status: str | None = None
    reference: str | None = None
    from_ms: int | None = None
    until_ms: int | None = None
    batch: str | None = None
    due_from_ms: int | None = None
    due_until_ms: int | None = None

    @property
    def index(self) -> str:
        """The narrowest index that contains all matches, whatever their status."""
        if self.batch is not None:
            return keys.messages_of_batch(self.batch)
        if self.reference is not None:
            return keys.messages_with_reference(self.reference)
        if self.to is not None:
            return keys.messages_to(self.to)
        if self.session is not None:
            return keys.messages_of_session(self.session)
        return keys.ALL_MESSAGES

    @property
    def has_index_of_status(self) -> bool:
        """Whether the index by session and status is the narrowest."""
        return self.reference is None and self.to is None and self.batch is None

    def match(self, message: Message) -> bool:
        """Whether a message matches."""
        pairs = (
            (self.to, message.to),
            (self.session, message.session),
            (self.status, message.status),
            (self.reference, message.reference),
            (self.batch, message.batch),
        )
        spans = (
            (self.from_ms, message.accepted_at, self.until_ms),
            (self.due_from_ms, message.due_at or message.accepted_at, self.due_until_ms),
        )
        return all(wanted is None or wanted == value for wanted, value in pairs) and all(
            (first is None or first <= at) and (last is None or at <= last) for first, at, last in spans
        )


async def search(
    scripts: Scripts, filters: Filters, *, cursor: str | None, limit: int
) -> tuple[list[Message], str | None]:
    """Return a page of matches and the cursor of the next page, or None at the end."""
    found: list[Message] = []
    examined = 0
    place = None if cursor is None else _decode(cursor)
    while examined < MAX_EXAMINED:
        # Where the index is exact, as it mostly is, one read of `limit` entries is the page.
        entries = await _page(scripts, filters, place, most=_CHUNK if examined else min(limit, _CHUNK))
        if not entries:
            return found, None
        messages = await records.messages(scripts, [name for name, _ in entries])
        by_id: dict[str, Message] = {message.id: message for message in messages}
        for name, score in entries:
            examined += 1
            place = (name, score)
            message = by_id.get(name)
            if message is not None and filters.match(message):
                found.append(message)
                if len(found) == limit:
                    return found, _encode(place)
    return found, _encode(place) if place else None


async def _page(scripts: Scripts, filters: Filters, after: IndexEntry | None, *, most: int) -> list[IndexEntry]:
    """Return the next entries of the narrowest index that contains all matches."""
    span = {"from_ms": filters.from_ms, "until_ms": filters.until_ms}
    if filters.status is None or not filters.has_index_of_status:
        return await message_index.page(scripts, filters.index, after=after, **span, most=most)
    session = filters.session or ""
    return await message_index.page_of_statuses(scripts, [filters.status], session, after=after, **span, most=most)


def _encode(place: tuple[str, int]) -> str:
    return paging.encode(f"{place[1]} {place[0]}")


def _decode(cursor: str) -> tuple[str, int]:
    score, _, name = paging.decode(cursor).partition(" ")
    if not (score.isascii() and score.isdigit() and name.isascii() and name):
        raise Refused("BAD_CURSOR", "The cursor is malformed. Use `next` of the page before, or none.")
    return name, int(score)
