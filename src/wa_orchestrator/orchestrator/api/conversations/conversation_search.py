"""Finds conversations by number, name and what was written, for the routes of conversations and of contacts."""

import json
from collections.abc import Collection
from typing import Any, Final

from wa_orchestrator.context import Context
from wa_orchestrator.messages import conversation_thread
from wa_orchestrator.messages.conversation_thread import SearchPlace
from wa_orchestrator.store.conversations import conversation_index, conversation_records
from wa_orchestrator.store.conversations.conversation_records import StoredConversation
from wa_orchestrator.store.messages.message_index import IndexEntry
from wa_orchestrator.web import paging

#: Of each kind, on one page: by number and name, in what came in lately, in the archive, in what we sent.
HITS: Final = 20


async def find(
    context: Context, text: str, among: Collection[str] | None, cursor: str | None
) -> tuple[list[StoredConversation], str | None]:
    """Return conversations by number and name, the newest first, then by what was written; and the next page's cursor.

    Later pages have what was written before. A conversation comes again where an older message of it is found.
    """
    scripts, after = context.scripts, None if cursor is None else _place_of(cursor)
    named = await _named(context, text, among) if after is None else []
    hits, last = await conversation_thread.search(scripts, context.archive, text, among=among, after=after, most=HITS)
    seen = {(each.session, each.contact) for each in named}
    others = [name for name, _ in hits if name not in seen]
    return [*named, *await conversation_records.read(scripts, others)], _cursor_of(last) if last else None


async def _named(context: Context, text: str, among: Collection[str] | None) -> list[StoredConversation]:
    scripts = context.scripts
    # As people write it: with signs between, and with a zero in place of the country.
    digits = "".join(each for each in text if each.isdigit()).lstrip("0")
    folded = text.strip().casefold()
    names = await conversation_index.search(scripts, folded, among=among, most=HITS)
    if len(digits) >= 4 and digits != folded:
        names += await conversation_index.search(scripts, digits, among=among, most=HITS)
    named = await conversation_records.read(scripts, list(dict.fromkeys(names)))
    return sorted(named, key=lambda each: each.last_at, reverse=True)[:HITS]


def _cursor_of(place: SearchPlace) -> str:
    return paging.encode(json.dumps([place.received, place.sent]))


def _place_of(cursor: str) -> SearchPlace:
    try:
        received, sent = map(_entry, json.loads(paging.decode(cursor)))
    except (ValueError, TypeError):
        raise paging.bad_cursor() from None
    return SearchPlace(received, sent)


def _entry(raw: Any) -> IndexEntry | None:
    if raw is None:
        return None
    name, at = raw
    if not isinstance(name, str) or type(at) is not int:
        raise paging.bad_cursor()
    return name, at
