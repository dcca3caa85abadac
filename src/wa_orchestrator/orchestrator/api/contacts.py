"""Routes about one person: an export of what is stored about them, and its erasure."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final

from fastapi import Path, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from wa_orchestrator.archive import erasure
from wa_orchestrator.archive.contract import Contact
from wa_orchestrator.context import Context
from wa_orchestrator.domain import phone as phones
from wa_orchestrator.errors import Unavailable
from wa_orchestrator.messages import message_lookup, message_search
from wa_orchestrator.store.messages import contacts, erasures, incoming_messages
from wa_orchestrator.store.messages.message_filters import Filters
from wa_orchestrator.store.records import Message
from wa_orchestrator.timestamps import FOREVER_MS, iso
from wa_orchestrator.web.auth import AdminCaller
from wa_orchestrator.web.models import ResponseModel
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

_PAGE: Final = 200
#: How long a request waits for the leader, which erases within seconds.
_WAIT_S: Final = 15.0
_POLL_S: Final = 0.2

PhonePath = Annotated[
    str, Path(max_length=40, pattern=r"^[0-9+(). -]+$", description="The person's phone.", examples=["972501234567"])
]


class ContactErasure(ResponseModel):
    """The erasure of a person. It is carried out although nobody asks again."""

    phone: str
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
        bad = responses(BAD_PHONE=400)
        self.get("/{phone}/export", response_class=JsonLines, responses=bad)(self.export_contact)
        self.delete("/{phone}", status_code=202, responses=bad)(self.erase_contact)

    async def export_contact(self, phone: PhonePath, caller: AdminCaller) -> Response:
        """Export what is stored about a person, as JSON lines.

        Each has `kind`: `contact` (first), `message` (with text and timeline), `incoming`. Events repeat what is in
        these, and have no lines of their own.
        """
        contact = await erasure.contact_of(self._scripts, phones.parse(phone))
        if not await message_search.is_complete(self._scripts, self._context.archive):
            text = "The archive is on another machine. Ask the orchestrator there."
            raise Unavailable("ARCHIVE_ELSEWHERE", text)
        await self._audit(caller, "contact.export", contact.phone[-4:])
        return JsonLines(_lines(self._context, contact), headers={"Cache-Control": "no-store"})

    async def erase_contact(self, phone: PhonePath, caller: AdminCaller) -> ContactErasure:
        """Erase what is stored about a person, and cancel what waits for them. An opt-out stays."""
        recipient = phones.parse(phone)
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
    async for message in _messages(context, contact):
        timeline = await message_lookup.timeline(context.scripts, context.archive, message.id)
        steps = [{"at": iso(at), "status": status, "note": note} for at, status, note in timeline]
        content = json.loads(message.body) if message.body else None
        yield _line("message", {
            "messageId": message.id, "sessionId": message.session, "phone": message.phone, "to": message.to,
            "status": message.status, "reason": message.reason, "reference": message.reference,
            "batchId": message.batch, "content": content, "timeline": steps,
        })  # fmt: skip
    async for fields in _incoming(context, contact):
        yield _line("incoming", fields)


def _line(kind: str, fields: dict[str, Any]) -> str:
    return json.dumps({"kind": kind, **fields}, ensure_ascii=False) + "\n"


async def _facts(context: Context, contact: Contact) -> dict[str, Any]:
    opted_out = await contacts.opt_out_of(context.scripts, contact.phone)
    return {
        "phone": contact.phone,
        "lid": contact.lid or None,
        "optedOutAt": iso(opted_out.at_ms) if opted_out else None,
        "lastSessionId": await contacts.affinity(context.scripts, contact.phone),
    }


async def _messages(context: Context, contact: Contact) -> AsyncIterator[Message]:
    both, last = (context.scripts, context.archive), None
    while True:
        found, last = await message_search.search(*both, Filters(to=contact.phone), after=last, limit=_PAGE)
        for message in found:
            yield message
        if last is None:
            return


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
