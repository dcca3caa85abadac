"""Routes about people: who wrote, an export of what is stored about one, and its erasure."""

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Annotated, Any, Final

from fastapi import Path, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from wa_orchestrator.archive import erasure
from wa_orchestrator.archive.contract import Contact
from wa_orchestrator.context import Context
from wa_orchestrator.domain.recipient import is_group, is_phone
from wa_orchestrator.messages import conversation_thread, message_lookup, message_search
from wa_orchestrator.orchestrator.api.conversations import conversation_search, thread_views
from wa_orchestrator.orchestrator.api.conversations.models import ContactPage, ContactView
from wa_orchestrator.orchestrator.api.conversations.routes import names_of
from wa_orchestrator.store import records
from wa_orchestrator.store.conversations import conversation_index, conversation_records
from wa_orchestrator.store.conversations.conversation_records import StoredConversation
from wa_orchestrator.store.history import erasures
from wa_orchestrator.store.messages import contacts, incoming_messages
from wa_orchestrator.store.messages.message_filters import Filters
from wa_orchestrator.timestamps import FOREVER_MS, iso
from wa_orchestrator.web import paging
from wa_orchestrator.web.auth import AdminCaller, Caller, LimitedReader
from wa_orchestrator.web.models import ResponseModel
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

_PAGE: Final = 200
#: How long a request waits for the leader, which erases within seconds.
_WAIT_S: Final = 15.0
_POLL_S: Final = 0.2

PhonePath = Annotated[
    str,
    Path(
        max_length=40,
        pattern=r"^(lid:[0-9]+|[0-9+(). -]+)$",
        description="The person's phone, or `lid:` and the lid where it is hidden.",
        examples=["972501234567"],
    ),
]


class ContactErasure(ResponseModel):
    """The erasure of a person. It is carried out although nobody asks again."""

    phone: str = Field(description="Or `lid:` and the lid, where no phone is known.", examples=["972501234567"])
    erased: bool = Field(description="Whether it is done; false while it waits for the leader. Ask again to see it.")
    opted_out: bool = Field(description="Whether the person stays on the opt-out list, so that nobody writes to them.")


class JsonLines(StreamingResponse):
    """One JSON object per line."""

    #: Not `application/x-ndjson`, which generated clients refuse to read.
    media_type = "text/plain"


class ContactRoutes(RouteGroup):
    """Routes `/api/v1/contacts`."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, "/api/v1/contacts", "contacts")
        bad = responses(BAD_PHONE=400, BAD_RECIPIENT=400, RECIPIENT_IS_LID=422)
        self.get("", responses=responses(BAD_CURSOR=400))(self.list_contacts)
        self.get("/{phone}/export", response_class=JsonLines, responses=bad)(self.export_contact)
        self.delete("/{phone}", status_code=202, responses=bad)(self.erase_contact)

    async def list_contacts(
        self,
        caller: LimitedReader,
        search: Annotated[
            str | None,
            Query(min_length=1, max_length=100, description="In numbers, names and texts, as for conversations."),
        ] = None,
        cursor: paging.Cursor = None,
        limit: paging.Limit = 100,
    ) -> ContactPage:
        """List the people with whom there is a conversation, by number. Members of groups are not among them."""
        among = await self._context.session_labels.reached_accounts(caller.reach)
        if search is not None:
            hits, following = await conversation_search.find(self._context, search, among, cursor)
            return ContactPage(contacts=await self._views([each.contact for each in hits], among), next=following)
        after = "" if cursor is None else paging.decode(cursor)
        found, more = await conversation_index.contacts(self._scripts, among=among, after=after, most=limit)
        shown = await self._views([contact for contact, _ in found], among)
        return ContactPage(contacts=shown, next=paging.encode(found[-1][0]) if more else None)

    async def of(self, people: Sequence[str], caller: Caller) -> list[ContactView]:
        """Return these people, as far as the caller sees conversations with them."""
        return await self._views(people, await self._context.session_labels.reached_accounts(caller.reach))

    async def _views(self, people: Sequence[str], among: Collection[str] | None) -> list[ContactView]:
        """Return contacts in this order, each once, with their conversations of the sessions `among`."""
        wanted = [each for each in dict.fromkeys(people) if not is_group(each)]
        names = await conversation_records.names_of(self._scripts, wanted)
        kept = [name for name in names if among is None or name[0] in among]
        talks: dict[str, list[StoredConversation]] = {}
        for each in await conversation_records.read(self._scripts, kept):
            talks.setdefault(each.contact, []).append(each)
        for several in talks.values():
            several.sort(key=lambda each: each.last_at, reverse=True)
        known = [talks[contact] for contact in wanted if contact in talks]
        newest = [each[0] for each in known]
        last = await conversation_thread.last_items(self._scripts, self._context.archive, newest)
        senders = await contacts.affinities(self._scripts, [each.contact for each in newest])
        stopped = await self._stopped([each for several in known for each in several])
        return [
            ContactView(
                contact=names_of(first),
                opted_out=all(each.id in stopped for each in several),
                session_id=sender if sender and (among is None or sender in among) else "",
                conversations=[each.id for each in several],
                last_at=iso(first.last_at),
                last_message=thread_views.preview(item) if (item := last.get((first.session, first.contact))) else None,
                tags=sorted({tag for each in several for tag in each.tags}),
                notes=[each.notes for each in several if each.notes],
            )
            for first, several, sender in zip(newest, known, senders, strict=True)
        ]

    async def _stopped(self, talks: Sequence[StoredConversation]) -> frozenset[str]:
        """Return the ids of those conversations whose phone may not write to the person any more."""
        found = await records.sessions(self._scripts, {each.session for each in talks})
        phone_of: dict[str, str] = {each.id: each.phone for each in found}
        pairs = {each.id: [(phone_of.get(each.session, ""), name) for name in each.names] for each in talks}
        stopped = await contacts.opted_out_among(
            self._scripts, [pair for several in pairs.values() for pair in several]
        )
        return frozenset(talk for talk, several in pairs.items() if any(pair in stopped for pair in several))

    async def export_contact(self, phone: PhonePath, caller: AdminCaller) -> Response:
        """Export what is stored about a person, as JSON lines.

        Each has `kind`: `contact` (first), `conversation`, `message` (with text and timeline), `incoming`. Events
        repeat what is in these, and have no lines of their own.
        """
        contact = await erasure.contact_of(self._scripts, await contacts.person(self._scripts, phone))
        await message_search.require_complete(self._scripts, self._context.archive)
        await self._audit(caller, "contact.export", contact.phone[-4:])
        return JsonLines(_lines(self._context, contact), headers={"Cache-Control": "no-store"})

    async def erase_contact(self, phone: PhonePath, caller: AdminCaller) -> ContactErasure:
        """Erase what is stored about a person, and cancel what waits for them. An opt-out stays."""
        recipient = await contacts.person(self._scripts, phone)
        await self._audit(caller, "contact.erase", recipient[-4:])
        await erasures.ask(self._scripts, recipient)
        try:
            async with asyncio.timeout(_WAIT_S):
                while not (erased := await erasures.is_passed(self._scripts, recipient)):  # noqa: ASYNC110 (the leader may be another process)
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            erased = False
        opted_out = await contacts.opt_out_of(self._scripts, recipient) is not None
        return ContactErasure(phone=recipient, erased=erased, opted_out=opted_out)


async def _lines(context: Context, contact: Contact) -> AsyncIterator[str]:
    yield _line("contact", await _facts(context, contact))
    names = await conversation_records.names_of(context.scripts, contact.names)
    for known in await conversation_records.read(context.scripts, names):
        yield _line("conversation", {
            "conversationId": known.id, "sessionId": known.session, "name": known.name, "notes": known.notes,
            "earlierNotes": [json.loads(each) for each in known.earlier_notes],
            "tags": list(known.tags), "assignedTo": known.assigned or None, "unread": known.unread,
            "lastAt": iso(known.last_at), "createdAt": iso(known.created_at), "closed": known.closed,
        })  # fmt: skip
    for name in contact.names:
        async for message in message_search.every(context.scripts, context.archive, Filters(to=name)):
            yield _line("message", await _message_fields(context, message))
    async for fields in _incoming(context, contact):
        yield _line("incoming", fields)


async def _message_fields(context: Context, message: records.Message) -> dict[str, Any]:
    timeline = await message_lookup.timeline(context.scripts, context.archive, message.id)
    return {
        "messageId": message.id, "sessionId": message.session, "phone": message.phone, "to": message.to,
        "status": message.status, "reason": message.reason, "reference": message.reference,
        "batchId": message.batch, "content": json.loads(message.body) if message.body else None,
        "timeline": [{"at": iso(at), "status": status, "note": note} for at, status, note in timeline],
    }  # fmt: skip


def _line(kind: str, fields: dict[str, Any]) -> str:
    return json.dumps({"kind": kind, **fields}, ensure_ascii=False) + "\n"


async def _facts(context: Context, contact: Contact) -> dict[str, Any]:
    opted_out = await contacts.opt_out_of(context.scripts, contact.phone)
    return {
        "phone": contact.phone if is_phone(contact.phone) else None,
        "lid": contact.lid or None,
        "optedOutAt": iso(opted_out.at_ms) if opted_out else None,
        "lastSessionId": await contacts.affinity(context.scripts, contact.phone),
    }


async def _incoming(context: Context, contact: Contact) -> AsyncIterator[dict[str, Any]]:
    """Yield incoming messages: first those in Redis, then those in the archive; one that moves meanwhile once."""
    seen: set[tuple[str, str]] = set()
    first = 0
    while copies := await incoming_messages.copies(context.scripts, FOREVER_MS, most=_PAGE, first=first):
        first += len(copies)
        for copy in copies:
            if copy.contact in contact.names and copy.fields:
                seen.add((copy.session, copy.whatsapp_id))
                yield {"sessionId": copy.session, "message": copy.fields}
    place = -1
    while rows := await context.archive.incoming_of(contact, after=place, most=_PAGE):
        place = rows[-1][0]
        for _, copy in rows:
            if (copy.session, copy.whatsapp_id) not in seen:
                yield {"sessionId": copy.session, "message": copy.fields}
