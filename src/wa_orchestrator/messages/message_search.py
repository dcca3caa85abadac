"""Searches messages in Redis and in the archive as one list: newest first, with bounded work per page."""

from collections.abc import AsyncIterator, Collection
from dataclasses import replace
from typing import Final

from wa_orchestrator.archive.contract import Archive
from wa_orchestrator.domain.messages.message import MessageStatus
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.messages import message_lookup
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.history import archive_marks
from wa_orchestrator.store.messages import message_index
from wa_orchestrator.store.messages.message_filters import Filters
from wa_orchestrator.store.messages.message_index import IndexEntry
from wa_orchestrator.store.records import Message

#: Messages examined for one page, however few of them match. The next page continues from there.
MAX_EXAMINED: Final = 1000
_CHUNK: Final = 200


async def search(
    scripts: Scripts,
    archive: Archive,
    filters: Filters,
    *,
    among: Collection[str] | None = None,
    after: IndexEntry | None = None,
    limit: int,
) -> tuple[list[Message], IndexEntry | None]:
    """Return a page of matches, and the last entry examined, after which the next page begins; None at the end.

    With `among`, messages of other sessions than these are neither found nor named as the last entry.
    """
    found: list[Message] = []
    examined, last_own = 0, after
    while examined < MAX_EXAMINED:
        # Where the index is exact, as it mostly is, one read of `limit` entries is the page.
        most = _CHUNK if examined else min(limit, _CHUNK)
        entries = await _page(scripts, archive, filters, among, after, most=most)
        if not entries:
            return found, None
        by_id = await message_lookup.messages(scripts, archive, [name for name, _ in entries])
        for entry in entries:
            message = by_id.get(entry[0])
            if among is not None and (message is None or message.session not in among):
                continue
            examined, last_own = examined + 1, entry
            if message is not None and filters.match(message):
                found.append(message)
                if len(found) == limit:
                    return found, entry
        after = entries[-1]
    return found, last_own


async def every(
    scripts: Scripts, archive: Archive, filters: Filters, *, among: Collection[str] | None = None, page: int = _CHUNK
) -> AsyncIterator[Message]:
    """Yield all messages that match, the newest first, `page` of them at a time."""
    last: IndexEntry | None = None
    while True:
        found, last = await search(scripts, archive, filters, among=among, after=last, limit=page)
        for message in found:
            yield message
        if last is None:
            return


ELSEWHERE: Final = "The archive is on another machine. Ask the orchestrator there."
#: For those who ask for one message that was not found.
MAY_BE_THERE: Final = "It may be in the archive, which this process cannot read. Ask the orchestrator, on ORCH_PORT."


async def require_complete(scripts: Scripts, archive: Archive, text: str = ELSEWHERE, **details: str) -> None:
    """Raise `Unavailable` if this process cannot read the archive in use."""
    if not await is_complete(scripts, archive):
        raise Unavailable("ARCHIVE_ELSEWHERE", text, **details)


async def is_complete(scripts: Scripts, archive: Archive) -> bool:
    """Whether this process can read the archive in use; without it, a search finds what is in Redis."""
    in_use = await archive_marks.identity(scripts)
    return not in_use or in_use == await archive.identity()


async def _page(
    scripts: Scripts,
    archive: Archive,
    filters: Filters,
    among: Collection[str] | None,
    after: IndexEntry | None,
    *,
    most: int,
) -> list[IndexEntry]:
    """Return the next entries: of the narrowest index, of messages that are in no index yet, and of the archive.

    In this order, the order in which a message moves: one that does meanwhile is seen in the next place.
    With `among`, only what is known of these sessions is read, whatever else is searched for: a recipient is shared.
    """
    span = {"from_ms": filters.since, "until_ms": filters.until}
    entries = set[IndexEntry]()
    if not filters.statuses or MessageStatus.QUEUED in filters.statuses:
        entries.update(await message_index.page_of_jobs(scripts, filters.match, after=after, **span, most=most))
    if among is not None:
        own = sorted(among) if filters.session_id is None else sorted({filters.session_id} & set(among))
        for each in own:
            index = keys.messages_of_session(each)
            entries.update(await message_index.page(scripts, index, after=after, **span, most=most))
        if not filters.only_waiting:
            for each in own:
                mine = replace(filters, session_id=each)
                entries.update(await archive.page(mine, after=after, most=most))
        return sorted(entries, key=message_index.newest_last, reverse=True)[:most]
    if filters.index:
        entries.update(await message_index.page(scripts, filters.index, after=after, **span, most=most))
    else:
        session_id = filters.session_id or ""
        entries.update(
            await message_index.page_of_statuses(scripts, filters.statuses, session_id, after=after, **span, most=most)
        )
    if not filters.only_waiting:
        entries.update(await archive.page(filters, after=after, most=most))
    return sorted(entries, key=message_index.newest_last, reverse=True)[:most]
