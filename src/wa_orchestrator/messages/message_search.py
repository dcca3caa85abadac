"""Searches messages: pages over the indexes and the jobs, newest first, with bounded work per page."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from wa_orchestrator.domain.message import MessageStatus
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import message_index
from wa_orchestrator.store.messages.message_index import IndexEntry
from wa_orchestrator.store.records import Message

#: Messages examined for one page, however few of them match. The next page continues from there.
MAX_EXAMINED: Final = 1000
_CHUNK: Final = 200


@dataclass(frozen=True, slots=True)
class Filters:
    """What to search for; None, and no status, match everything. Instants are in milliseconds."""

    to: str | None = None
    session_id: str | None = None
    statuses: Collection[str] = ()
    reference: str | None = None
    batch_id: str | None = None
    since: int | None = None
    until: int | None = None
    due_from: int | None = None
    due_until: int | None = None

    @property
    def index(self) -> str:
        """The narrowest index that contains all matches; '' for that by session and status."""
        if self.batch_id is not None:
            return keys.messages_of_batch(self.batch_id)
        if self.reference is not None:
            return keys.messages_with_reference(self.reference)
        if self.to is not None:
            return keys.messages_to(self.to)
        if self.statuses:
            return ""
        return keys.ALL_MESSAGES if self.session_id is None else keys.messages_of_session(self.session_id)

    def match(self, message: Message) -> bool:
        """Whether a message matches."""
        pairs = (
            (self.to, message.to),
            (self.session_id, message.session),
            (self.reference, message.reference),
            (self.batch_id, message.batch),
        )
        spans = (
            (self.since, message.accepted_at, self.until),
            (self.due_from, message.due_at or message.accepted_at, self.due_until),
        )
        return (
            (not self.statuses or message.status in self.statuses)
            and all(wanted is None or wanted == value for wanted, value in pairs)
            and all((first is None or first <= at) and (last is None or at <= last) for first, at, last in spans)
        )


async def search(
    scripts: Scripts, filters: Filters, *, after: IndexEntry | None = None, limit: int
) -> tuple[list[Message], IndexEntry | None]:
    """Return a page of matches, and the last entry examined, after which the next page begins; None at the end."""
    found: list[Message] = []
    examined = 0
    while examined < MAX_EXAMINED:
        # Where the index is exact, as it mostly is, one read of `limit` entries is the page.
        entries = await _page(scripts, filters, after, most=_CHUNK if examined else min(limit, _CHUNK))
        if not entries:
            return found, None
        messages = await records.messages(scripts, [name for name, _ in entries])
        by_id: dict[str, Message] = {message.id: message for message in messages}
        for entry in entries:
            examined += 1
            message = by_id.get(entry[0])
            if message is not None and filters.match(message):
                found.append(message)
                if len(found) == limit:
                    return found, entry
        after = entries[-1]
    return found, after


async def _page(scripts: Scripts, filters: Filters, after: IndexEntry | None, *, most: int) -> list[IndexEntry]:
    """Return the next entries of the narrowest index, and of the messages that are in no index yet."""
    span = {"from_ms": filters.since, "until_ms": filters.until}
    entries = set[IndexEntry]()
    if not filters.statuses or MessageStatus.QUEUED in filters.statuses:
        # Before the index: a message that is routed meanwhile is in it by then.
        entries.update(await message_index.page_of_jobs(scripts, after=after, **span, most=most))
    if filters.index:
        entries.update(await message_index.page(scripts, filters.index, after=after, **span, most=most))
    else:
        session_id = filters.session_id or ""
        entries.update(
            await message_index.page_of_statuses(scripts, filters.statuses, session_id, after=after, **span, most=most)
        )
    return sorted(entries, key=message_index.newest_last, reverse=True)[:most]
