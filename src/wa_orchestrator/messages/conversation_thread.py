"""Reads the messages of a conversation in Redis and in the archive as one list, the newest first."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from wa_orchestrator.archive.contract import Archive
from wa_orchestrator.domain.amendments import Amended, Amendment, fold
from wa_orchestrator.domain.messages import incoming
from wa_orchestrator.domain.messages.search_words import words_of
from wa_orchestrator.messages import message_lookup, message_search
from wa_orchestrator.store import keys
from wa_orchestrator.store.conversations import conversation_homes, thread_notices
from wa_orchestrator.store.conversations.conversation_records import Name, StoredConversation
from wa_orchestrator.store.conversations.thread_notices import Notice
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.messages import incoming_messages, message_index
from wa_orchestrator.store.messages.incoming_messages import IncomingCopy
from wa_orchestrator.store.messages.message_filters import Filters
from wa_orchestrator.store.messages.message_index import IndexEntry, newest_last
from wa_orchestrator.store.records import Message

#: Fresh incoming messages that one page of a search looks at; older ones are in the archive, which has an index.
FRESH: Final = 1_000
#: Sorts after the name of every message of its instant.
_LAST_NAME: Final = "~"


@dataclass(frozen=True, slots=True)
class ThreadItem:
    """A message of a conversation: one that we accepted, or one that came in or was sent from the phone itself."""

    message: Message | IncomingCopy
    amended: Amended = field(default_factory=Amended)

    @property
    def id(self) -> str:
        return self.message.id

    @property
    def at_ms(self) -> int:
        return self.message.accepted_at if isinstance(self.message, Message) else self.message.received_at

    @property
    def whatsapp_id(self) -> str:
        return self.message.whatsapp_id

    @property
    def entry(self) -> IndexEntry:
        return self.id, self.at_ms


#: Items, and the last entry examined, after which the next page begins; None at the end.
Page = tuple[list[ThreadItem], IndexEntry | None]


async def page(
    scripts: Scripts, archive: Archive, known: StoredConversation, *, after: IndexEntry | None = None, limit: int
) -> Page:
    """Return a page of a conversation, the newest first, each message with what later ones did to it."""
    wanted = [Filters(to=name, session_id=session) for name in known.names for session in known.sessions]
    sources = [_sent(scripts, archive, filters, after, limit) for filters in wanted]
    sources += [_received(scripts, archive, known, after, limit, session=session) for session in known.sessions]
    parts: list[Page] = await asyncio.gather(*sources)
    items, last = _merged(parts, limit)
    return await _with_amendments(scripts, archive, known.sessions, items), last


async def notices(
    scripts: Scripts, archive: Archive, known: StoredConversation, phone: str, *, after_ms: int, until_ms: int
) -> list[tuple[int, Notice]]:
    """Return what a conversation has besides messages within a time, the oldest first; none that can be read by now."""
    ours = known.our_phone or phone
    found = await thread_notices.between(scripts, ours, known.names, after_ms=after_ms, until_ms=until_ms)
    named = {each: (each.session, each.whatsapp_id) for _, each in found if each.kind == thread_notices.UNDECRYPTABLE}
    unread = await message_lookup.missing_incoming(scripts, archive, list(named.values())) if named else ()
    return [(at_ms, each) for at_ms, each in found if each not in named or named[each] in unread]


def _merged(parts: Sequence[Page], limit: int) -> Page:
    """Merge pages of several sources. Nothing beyond the point that one of them has reached is shown: the next page
    begins there.
    """
    reached = max((newest_last(last) for _, last in parts if last is not None), default=None)
    items = {item.id: item for found, _ in parts for item in found}
    ordered = sorted(items.values(), key=lambda item: newest_last(item.entry), reverse=True)
    shown = [item for item in ordered if reached is None or newest_last(item.entry) >= reached]
    if len(shown) > limit:
        return shown[:limit], shown[limit - 1].entry
    if reached is None and len(shown) == len(ordered):
        return shown, None
    at, name = reached or newest_last(shown[-1].entry)
    return shown, (name, at)


async def _sent(scripts: Scripts, archive: Archive, filters: Filters, after: IndexEntry | None, limit: int) -> Page:
    found, last = await message_search.search(scripts, archive, filters, after=after, limit=limit)
    return [ThreadItem(each) for each in found], last


async def _received(
    scripts: Scripts, archive: Archive, known: StoredConversation, after: IndexEntry | None, limit: int, *, session: str
) -> Page:
    """Return what a session reported. Redis first: a message that moves meanwhile is in the archive by then.

    In Redis the session that has the conversation has the messages of all of them.
    """
    indexes = [keys.thread(session, name) for name in known.names] if session == known.session else []
    fresh: list[IncomingCopy] = []
    for index in indexes:
        while True:
            entries = await message_index.page(scripts, index, after=after, most=limit)
            found = await _copies(scripts, entries)
            gone = {name for name, _ in entries} - {each.id for each in found}
            if not gone:
                break
            await message_index.remove(scripts, index, gone)
        fresh += found
    old = await archive.incoming_page(session, known.names, after=after, most=limit)
    copies = {each.id: each for each in (*old, *fresh)}
    items = sorted(
        (ThreadItem(each) for each in copies.values()), key=lambda item: newest_last(item.entry), reverse=True
    )
    examined = items[:limit]
    # What another session of the account had reported before is shown there.
    shown = [item for item in examined if not _is_copy(item.message)]
    return shown, examined[-1].entry if len(examined) == limit else None


def _is_copy(message: Message | IncomingCopy) -> bool:
    return isinstance(message, IncomingCopy) and bool(message.fields.get("copied"))


async def _copies(scripts: Scripts, entries: Sequence[IndexEntry]) -> list[IncomingCopy]:
    """Return the incoming messages of these entries that are in Redis."""
    named = [(name, at) for our_id, at in entries if (name := incoming.parse_id(our_id))]
    found = await incoming_messages.fields_of_each(scripts, [name for name, _ in named])
    return [IncomingCopy(*name, fields, at) for (name, at), fields in zip(named, found, strict=True) if fields]


async def _with_amendments(
    scripts: Scripts, archive: Archive, sessions: Sequence[str], items: Sequence[ThreadItem]
) -> list[ThreadItem]:
    ids = [item.whatsapp_id for item in items]
    changes: dict[str, IncomingCopy] = {}
    for session in sessions:
        fresh = await _copies(scripts, await message_index.changes_of(scripts, session, ids))
        found = (*await archive.changes_of(session, ids), *fresh)
        changes |= {each.id: each for each in found if not _is_copy(each)}
    by_target: dict[str, list[IncomingCopy]] = defaultdict(list)
    for each in sorted(changes.values(), key=lambda copy: (copy.received_at, copy.id)):
        by_target[each.target].append(each)
    return [replace(item, amended=fold(map(_amendment, by_target[item.whatsapp_id]))) for item in items]


def _amendment(copy: IncomingCopy) -> Amendment:
    parts: dict[str, Any] = json.loads(copy.fields.get("parts", "{}"))
    options = tuple(parts.get("vote", {}).get("options", ()))
    author = "" if copy.fields.get("direction") == "out" else copy.contact
    return Amendment(copy.fields.get("kind", ""), author, copy.received_at, copy.fields.get("text", ""), options)


async def last_items(
    scripts: Scripts, archive: Archive, conversations: Iterable[StoredConversation]
) -> dict[Name, ThreadItem]:
    """Return the last message of each conversation, by its session and contact.

    One that has gone to another sender meanwhile, or was erased, is not the last one any more: then the thread is read.
    """
    every = list(conversations)
    ours = [each.last_message for each in every if each.last_message.startswith("m_")]
    sent = await message_lookup.messages(scripts, archive, ours)
    names = {each.last_message: incoming.parse_id(each.last_message) for each in every}
    received = await _received_by_id(scripts, archive, {key: name for key, name in names.items() if name})
    found: dict[Name, ThreadItem] = {}
    for each in every:
        message = sent.get(each.last_message) or received.get(each.last_message)
        if isinstance(message, Message) and message.session not in each.sessions:
            items, _ = await page(scripts, archive, each, limit=1)
            message = items[0].message if items else None
        if message is not None:
            found[(each.session, each.contact)] = ThreadItem(message)
    return found


async def _received_by_id(scripts: Scripts, archive: Archive, names: dict[str, Name]) -> dict[str, IncomingCopy]:
    fresh = await incoming_messages.fields_of_each(scripts, list(names.values()))
    found = {our_id: fields for our_id, fields in zip(names, fresh, strict=True) if fields}
    missing = {our_id: name for our_id, name in names.items() if our_id not in found}
    old = await archive.incoming(list(missing.values()))
    found |= {our_id: old[name] for our_id, name in missing.items() if name in old}
    return {
        our_id: IncomingCopy(*names[our_id], fields, int(float(fields.get("received_at", 0))))
        for our_id, fields in found.items()
    }


@dataclass(frozen=True, slots=True)
class SearchPlace:
    """Where a search goes on: the last entry examined of what came in and of what we sent; None where all were."""

    received: IndexEntry | None
    sent: IndexEntry | None


async def search(
    scripts: Scripts,
    archive: Archive,
    text: str,
    *,
    among: Collection[str] | None,
    after: SearchPlace | None,
    most: int,
) -> tuple[list[tuple[Name, ThreadItem]], SearchPlace | None]:
    """Return messages that contain all words of a text, each with its conversation's session and contact, of each
    conversation the newest; and where the next page begins, None at the end.

    The first page and the last have what the archive found.
    """
    wanted = set(words_of(text))
    if not wanted:
        return [], None
    fresh: list[IncomingCopy] = []
    sent: list[Message] = []
    last_fresh = last_sent = None
    if after is None or after.received:
        fresh, last_fresh = await incoming_messages.latest_with(
            scripts,
            after=after.received if after else None,
            examined=FRESH,
            most=most,
            matches=lambda session, said: (among is None or session in among) and wanted <= set(words_of(said)),
        )
        if last_fresh and among is not None:
            last_fresh = (_LAST_NAME, last_fresh[1])  # the entry may be of a session that the caller does not reach
    # At the end again: what moved to the archive meanwhile was seen in neither place.
    is_end = after is not None and after.received is not None and last_fresh is None
    old = await archive.search_incoming(text, among=among, most=most) if after is None or is_end else []
    if after is None or after.sent:
        sent, last_sent = await message_search.search(
            scripts, archive, Filters(text=text), among=among, after=after.sent if after else None, limit=most
        )
    hits = [((each.home, each.chat), ThreadItem(each)) for each in (*fresh, *old) if not _is_copy(each)]
    hits += [(await _home_of(scripts, each), ThreadItem(each)) for each in sent]
    newest: dict[Name, ThreadItem] = {}
    for name, item in sorted(hits, key=lambda hit: newest_last(hit[1].entry)):
        newest[name] = item
    found = sorted(newest.items(), key=lambda hit: newest_last(hit[1].entry), reverse=True)
    return found, SearchPlace(last_fresh, last_sent) if last_fresh or last_sent else None


async def _home_of(scripts: Scripts, message: Message) -> Name:
    """Return the conversation that shows a message of ours."""
    return await conversation_homes.of_message(scripts, message.phone, message.session, message.to)
