"""Routes of events: pages by cursor, and server-sent events."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Annotated, Any

from fastapi import Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from wa_orchestrator.context import Context
from wa_orchestrator.domain.access.permissions import RouteSpan, Scope
from wa_orchestrator.errors import Refused
from wa_orchestrator.messages import event_history
from wa_orchestrator.orchestrator.api.events import views
from wa_orchestrator.orchestrator.api.events.reference import EventId
from wa_orchestrator.store import records
from wa_orchestrator.store.events import event_stream
from wa_orchestrator.store.events.event_tail import Tail
from wa_orchestrator.web import auth, paging
from wa_orchestrator.web.auth import Caller, LimitedReader
from wa_orchestrator.web.models import OptionalTimestamp, ResponseModel
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

HEARTBEAT_S = 15.0
_SCAN_SIZE = 500
_MAX_SCANS = 20
#: Not `\d`: that has the digits of every script, which Redis does not take.
_CURSOR = r"^[0-9]{1,16}(-[0-9]{1,10})?$"
Cursor = Annotated[str | None, Query(pattern=_CURSOR, description="`id` of the last event you have.")]
Types = Annotated[str | None, Query(max_length=1000, description="Comma-separated: `message.*,session.connected`.")]


class StreamEvent(ResponseModel):
    """Something that happened."""

    id: EventId
    type: str = Field(description="One of the names in `webhooks` of this document.", examples=["message.delivered"])
    timestamp: OptionalTimestamp
    data: dict[str, Any] = Field(description="Depends on `type`, as in `webhooks` of this document.")


class EventPage(ResponseModel):
    """Events after a cursor, the oldest first."""

    events: list[StreamEvent]
    next: str = Field(description="The cursor to go on from. Keep it: the next page begins there.")
    more: bool = Field(description="Whether there may be more events already.")


class EventStreamResponse(StreamingResponse):
    """A stream of server-sent events."""

    media_type = "text/event-stream"


class EventRoutes(RouteGroup):
    def __init__(self, context: Context, tail: Tail | None = None) -> None:
        super().__init__(context, "/api/v1/events", "events")
        self._tail = tail or Tail(context.scripts)
        stream = responses(BAD_CURSOR=400)
        self.get("")(self.list_events)
        self.get("/stream", response_class=EventStreamResponse, responses=stream)(self.stream_events)

    async def list_events(
        self, caller: LimitedReader, after: Cursor = None, types: Types = None, limit: paging.Limit = 100
    ) -> EventPage:
        """List events after a cursor, the oldest first."""
        found, cursor, more = await page(self._context, caller, after or "0", _patterns(types), limit)
        return EventPage(events=[StreamEvent(**each) for each in found], next=cursor, more=more)

    async def stream_events(
        self,
        request: Request,
        caller: LimitedReader,
        after: Cursor = None,
        types: Types = None,
        last_event_id: Annotated[str | None, Header()] = None,
    ) -> Response:
        """Stream events as they happen, as server-sent events.

        Each has `id`, `event` (its type) and `data`, a JSON object as in `GET /api/v1/events`. `Last-Event-ID` or
        `after` continues after an event.
        """
        resumed = last_event_id or after
        if resumed is not None and not re.fullmatch(_CURSOR, resumed):
            raise Refused("BAD_CURSOR", "Last-Event-ID is not a cursor. Use the `id` of an event.")
        begin = resumed or await event_stream.last_cursor(self._scripts)
        still = partial(auth.authenticate, self._context, request, Scope.READ, RouteSpan.SESSIONS)
        lines = follow(self._context, self._tail, begin, _patterns(types), still)
        return EventStreamResponse(lines, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})


def _patterns(types: str | None) -> tuple[str, ...]:
    return tuple(each.strip() for each in types.split(",") if each.strip()) if types else ("*",)


async def page(
    context: Context, caller: Caller, after: str, patterns: tuple[str, ...], limit: int
) -> tuple[list[dict[str, Any]], str, bool]:
    """Return matching events after a cursor, the cursor to continue from, and whether there may be more already.

    A caller that is limited to some sessions gets the events of those.
    """
    reaches = await views.reaches_of(context.session_labels, caller.reach)

    async def shown() -> list[dict[str, Any]]:
        found = await views.views(context.scripts, context.archive, wanted)
        return list(map(views.restricted, found)) if caller.is_limited else found

    wanted: list[records.Entry] = []
    cursor = after
    for _ in range(_MAX_SCANS):
        entries = await event_history.read(context.scripts, context.archive, after=cursor, most=_SCAN_SIZE)
        for entry in entries:
            if len(wanted) == limit:
                return await shown(), cursor, True
            cursor = entry.cursor
            if views.is_wanted(patterns, entry) and reaches(entry):
                wanted.append(entry)
        if not entries or (len(entries) < _SCAN_SIZE and await _is_end(context, cursor)):
            return await shown(), cursor, False
    return await shown(), cursor, True


async def _is_end(context: Context, cursor: str) -> bool:
    """Whether a short page was the last: one of the archive ends before those that are in Redis alone."""
    return cursor == await event_stream.last_cursor(context.scripts)


async def follow(
    context: Context,
    tail: Tail,
    after: str,
    patterns: tuple[str, ...],
    still: Callable[[], Awaitable[Caller]],
    *,
    heartbeat_s: float = HEARTBEAT_S,
) -> AsyncIterator[str]:
    """Yield server-sent events after a cursor, and a comment when nothing happens for a while.

    `still` authenticates the caller again: the stream ends when the key has expired or was revoked.
    """
    cursor = after
    yield "retry: 2000\n\n"
    while True:
        try:
            caller = await still()
        except Refused:
            return
        found, cursor, more = await page(context, caller, cursor, patterns, 100)
        for event in found:
            yield f"id: {event['id']}\nevent: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n"
        if more:
            continue
        try:
            async with asyncio.timeout(heartbeat_s):
                await tail.after(cursor)
        except TimeoutError:
            yield ": still here\n\n"
