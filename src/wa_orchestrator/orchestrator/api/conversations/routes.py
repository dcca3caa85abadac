"""Conversations: list, search, read, and change what people note about them."""

import asyncio
import json
from collections.abc import Collection, Sequence
from typing import Annotated, Final, Literal

from fastapi import Path, Query
from pydantic import Field
from pydantic.alias_generators import to_camel

from wa_orchestrator.context import Context
from wa_orchestrator.domain import conversation
from wa_orchestrator.domain.conversation import ConversationState
from wa_orchestrator.errors import Refused
from wa_orchestrator.messages import answering_sessions, conversation_thread, message_search, reply_forecast
from wa_orchestrator.orchestrator.api.conversations import conversation_search, thread_views
from wa_orchestrator.orchestrator.api.conversations.models import (
    ContactNames,
    ConversationDetail,
    ConversationPage,
    ConversationPatch,
    ConversationView,
    EarlierNotes,
    Fields,
    ReadMark,
    ReplyForecast,
    ThreadPage,
)
from wa_orchestrator.orchestrator.messages import read_marks
from wa_orchestrator.store.access import people
from wa_orchestrator.store.conversations import conversation_index, conversation_records
from wa_orchestrator.store.conversations.conversation_records import ConversationChanges, StoredConversation
from wa_orchestrator.store.messages import contacts
from wa_orchestrator.store.records import Message
from wa_orchestrator.timestamps import FOREVER_MS, iso
from wa_orchestrator.web import paging
from wa_orchestrator.web.auth import Caller, LimitedOperator, LimitedReader
from wa_orchestrator.web.models import RequestModel
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

ConversationId = Annotated[str, Path(pattern=r"^c_[A-Za-z0-9_-]{2,200}$", examples=["c_dzEgOTcyNTAxMjM0NTY3"])]
_FOUND = responses(NO_SUCH_CONVERSATION=404)
#: Without a filter: who waits, then the others that are open.
_ACTIVE: Final = (ConversationState.WAITING, ConversationState.OPEN)
#: Of one contact; hardly anybody has so many numbers of ours.
_MOST_TALKS: Final = 10
#: Conversations examined for one page, however few of them match the filters that no index knows.
_MOST_EXAMINED: Final = 1_000


class ConversationSearch(RequestModel):
    """Which conversations; all filters must match."""

    state: Literal["waiting", "open", "closed"] | None = Field(None, description="Default: waiting, then open.")
    session_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] | None = None
    assigned_to: Annotated[str, Field(max_length=64)] | None = Field(
        None, description="The id of a person; '' for nobody."
    )
    tag: Annotated[str, Field(max_length=50)] | None = None
    search: Annotated[str, Field(min_length=1, max_length=100)] | None = Field(
        None,
        description="In numbers, names and texts; other filters do not apply. A page looks at the next 1,000 messages "
        "that are not in the archive yet: go on with `next` until it is null, also after a page without any.",
    )
    cursor: paging.Cursor = None
    limit: Annotated[int, Field(ge=1, le=paging.MOST)] = 50

    def match(self, known: StoredConversation) -> bool:
        return (self.assigned_to is None or known.assigned == self.assigned_to) and (
            self.tag is None or self.tag in known.tags
        )


class ConversationRoutes(RouteGroup):
    """Routes `/api/v1/conversations`."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, "/api/v1/conversations", "conversations")
        self._archive = context.archive
        one = "/{conversation_id}"
        self.get("", responses=responses(BAD_CURSOR=400))(self.list_conversations)
        self.get(one, responses=_FOUND)(self.get_conversation)
        self.get(f"{one}/messages", responses=_FOUND | responses(BAD_CURSOR=400))(self.list_conversation_messages)
        self.patch(one, responses=_FOUND | responses(NO_SUCH_PERSON=422))(self.change_conversation)
        self.post(f"{one}/read", responses=_FOUND)(self.mark_conversation_read)

    async def list_conversations(
        self, caller: LimitedReader, search: Annotated[ConversationSearch, Query()]
    ) -> ConversationPage:
        """List or search conversations. One begins when the contact writes, or the owner does from the phone."""
        labels = self._context.session_labels
        among = await labels.reached(caller.reach)
        own = among if search.session_id is None else _narrowed(among, search.session_id)
        own = None if own is None else await labels.with_siblings(own)
        if search.search is not None:
            found, following = await conversation_search.find(self._context, search.search, own, search.cursor)
        else:
            found, following = await self._page(search, own)
        counts = await conversation_index.counts(self._scripts, among=own)
        shown = [ConversationView(**each) for each in await self._views(found)]
        return ConversationPage(conversations=shown, next=following, **counts)

    async def get_conversation(self, conversation_id: ConversationId, caller: LimitedReader) -> ConversationDetail:
        """Get a conversation with its notes, and when an answer would leave."""
        return await self._detail(await self._found(conversation_id, caller))

    async def list_conversation_messages(
        self,
        conversation_id: ConversationId,
        caller: LimitedReader,
        cursor: paging.Cursor = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 60,
    ) -> ThreadPage:
        """List the messages of a conversation, the newest first."""
        known = await self._found(conversation_id, caller)
        after = None if cursor is None else paging.decode_entry(cursor)
        both = (self._scripts, self._archive)
        items, last = await conversation_thread.page(*both, known, after=after, limit=limit)
        (device,) = await answering_sessions.find(self._scripts, [known])
        outlook = await reply_forecast.outlook(self._scripts, self._settings, device.session)
        etas = [
            await reply_forecast.eta_of(self._scripts, item.message, outlook)
            if isinstance(item.message, Message)
            else None
            for item in items
        ]
        shown = [thread_views.view(item, eta, self._settings.language) for item, eta in zip(items, etas, strict=True)]
        following = None if last is None else paging.encode(f"{last[1]} {last[0]}")
        begins_ms, ends_ms = last[1] if last else 0, after[1] if after else FOREVER_MS
        notices = await conversation_thread.notices(*both, known, device.phone, after_ms=begins_ms, until_ms=ends_ms)
        return ThreadPage(
            messages=shown,
            notices=[thread_views.notice(at_ms, each) for at_ms, each in notices],
            next=following,
            complete=await message_search.is_complete(*both),
        )

    async def change_conversation(
        self, conversation_id: ConversationId, body: ConversationPatch, caller: LimitedOperator
    ) -> ConversationDetail:
        """Change the notes, the tags and who answers; close or open it."""
        known = await self._found(conversation_id, caller)
        changes = ConversationChanges()
        if body.notes is not None:
            changes["notes"] = body.notes
            if body.notes != known.notes:  # what is saved again unchanged keeps its place in the thread
                changes["noted_at"] = await self._scripts.now_ms()
                changes["noted_by"] = caller.name or caller.key_id
        if body.tags is not None:
            changes["tags"] = tuple(body.tags)
        if body.assigned_to is not None:
            if body.assigned_to and await people.find(self._scripts, body.assigned_to) is None:
                raise Refused("NO_SUCH_PERSON", "There is no such person. GET /api/v1/people lists them.", 422)
            changes["assigned"] = body.assigned_to
        if body.state is not None and (body.state == "closed") != known.closed:
            changes["closed"] = body.state == "closed"
            changes["closed_at"] = await self._scripts.now_ms() if body.state == "closed" else 0
        # Who closes a conversation has read it.
        until = str(FOREVER_MS) if body.state == "closed" else ""
        if changes:
            await self._change(known, changes, caller, ",".join(sorted(map(to_camel, body.model_fields_set))), until)
        return await self._detail(await self._found(conversation_id, caller))

    async def mark_conversation_read(
        self, conversation_id: ConversationId, body: ReadMark, caller: LimitedOperator
    ) -> ConversationView:
        """Mark a conversation as read here, or as unread. The contact sees blue ticks only with `tell`."""
        known = await self._found(conversation_id, caller)
        if body.unread:
            await self._change(known, {}, caller, "unread", "unread")
        else:
            until_ms = await self._seen_until(known, body.until)
            if body.tell:  # before it is not known any more what was unread
                (device,) = await answering_sessions.find(self._scripts, [known])
                await read_marks.tell(self._context, known, device.session, until_ms)
            await self._change(known, {}, caller, "read", str(until_ms))
        (shown,) = await self._views([await self._found(conversation_id, caller)])
        return ConversationView(**shown)

    async def with_contact(self, contact: str, caller: Caller, *, besides: str) -> list[ConversationView]:
        """Return the conversations with a person, known by this name, that the caller reaches, but for one."""
        among = await self._context.session_labels.reached_accounts(caller.reach)
        names = await conversation_records.names_of(self._scripts, [contact])
        known = await conversation_records.read(
            self._scripts, [each for each in names if among is None or each[0] in among]
        )
        shown = sorted((each for each in known if each.id != besides), key=lambda each: each.last_at, reverse=True)
        return [ConversationView(**each) for each in await self._views(shown[:_MOST_TALKS])]

    # -- reading

    async def _page(
        self, search: ConversationSearch, among: Collection[str] | None
    ) -> tuple[list[StoredConversation], str | None]:
        after = "" if search.cursor is None else paging.decode(search.cursor)
        states = list(_ACTIVE if search.state is None else (ConversationState(search.state),))
        if after:
            first = next((each for each in states if after.startswith(f":{each} ")), None)
            if first is None or len(after.split(" ")) != 4:
                raise paging.bad_cursor()
            states = states[states.index(first) :]
        found: list[StoredConversation] = []
        examined = 0
        for state in states:
            while examined < _MOST_EXAMINED:
                most = search.limit
                entries = await conversation_index.page(self._scripts, state, among=among, after=after, most=most)
                by_name = {each.index_tail: each for each in await conversation_index.read(self._scripts, entries)}
                for entry in entries:
                    examined, after = examined + 1, entry.tail
                    known = by_name.get(entry.tail)
                    if known is not None and search.match(known):
                        found.append(known)
                        if len(found) == search.limit:
                            return found, paging.encode(after)
                if len(entries) < most:
                    break
            else:
                return found, paging.encode(after)
            after = ""
        return found, None

    async def _found(self, conversation_id: str, caller: Caller) -> StoredConversation:
        name = conversation.parse_id(conversation_id)
        reaches = await self._context.session_labels.account_filter_for(caller.reach)
        known = await conversation_records.find(self._scripts, *name) if name else None
        if known is None or not any(map(reaches, known.sessions)):
            text = "There is no such conversation. GET /api/v1/conversations lists those that are kept."
            raise Refused("NO_SUCH_CONVERSATION", text, 404, conversationId=conversation_id)
        return known

    async def _views(self, found: Sequence[StoredConversation]) -> list[Fields]:
        devices = await answering_sessions.find(self._scripts, found)
        pairs = [(device.phone, name) for each, device in zip(found, devices, strict=True) for name in each.names]
        last, opted_out, senders = await asyncio.gather(
            conversation_thread.last_items(self._scripts, self._archive, found),
            contacts.opted_out_among(self._scripts, pairs),
            contacts.affinities(self._scripts, [each.contact for each in found]),
        )
        previews = {name: thread_views.preview(item) for name, item in last.items()}
        return [
            {
                "conversation_id": each.id,
                "session_id": device.session,
                "contact": names_of(each),
                "group": each.contact if each.group else "",
                "state": each.state,
                "unread": each.unread,
                "waiting_since": each.waiting_since,
                "last_at": each.last_at,
                "last_message": previews.get((each.session, each.contact)),
                "opted_out": any((device.phone, name) in opted_out for name in each.names),
                "has_sender": sender in (device.session, *each.sessions),
                "tags": list(each.tags),
                "assigned_to": each.assigned,
            }
            for each, device, sender in zip(found, devices, senders, strict=True)
        ]

    async def _detail(self, known: StoredConversation) -> ConversationDetail:
        (shown,) = await self._views([known])
        outlook = await reply_forecast.outlook(self._scripts, self._settings, shown["session_id"])
        expected = await reply_forecast.prospect(self._scripts, known, outlook)
        reply = ReplyForecast(
            to="" if expected.obstacle else known.contact,
            obstacle=expected.obstacle,
            eta=iso(expected.eta.at_ms or 0),
            because=expected.eta.because,
            ahead=expected.ahead,
        )
        names = ("notes", "noted_at", "noted_by", "read_at", "closed_at", "created_at")
        others = {name: getattr(known, name) for name in names}
        others["earlier_notes"] = [EarlierNotes(**json.loads(each)) for each in known.earlier_notes]
        return ConversationDetail(**shown, **others, reply=reply)

    # -- changes

    async def _change(
        self, known: StoredConversation, changes: ConversationChanges, caller: Caller, what: str, read_until: str
    ) -> None:
        (device,) = await answering_sessions.find(self._scripts, [known])
        changed = await conversation_records.change(
            self._scripts, known, changes, by=caller.key_id, what=what, our_phone=device.phone, read_until=read_until
        )
        if changed and changes:  # reading is no change of anything that somebody could want to trace
            await self._audit(caller, "conversation.change", known.id, change=what)

    async def _seen_until(self, known: StoredConversation, message_id: str | None) -> int:
        """Return when the last message came that was seen. An unknown one was erased: everything is older than now."""
        if message_id is None:
            return FOREVER_MS
        at = await conversation_records.received_at(self._scripts, known, message_id)
        return FOREVER_MS if at is None else at


def names_of(known: StoredConversation) -> ContactNames:
    return ContactNames(phone=known.phone, lid=known.lid, name=known.name)


def _narrowed(among: frozenset[str] | None, session_id: str) -> frozenset[str]:
    return frozenset({session_id}) if among is None else frozenset({session_id}) & among
