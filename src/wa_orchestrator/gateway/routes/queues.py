"""Queues of sessions, and the messages that wait in them."""

from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query
from pydantic import Field

from wa_orchestrator.context import Context
from wa_orchestrator.errors import Refused
from wa_orchestrator.gateway import response_models, waiting_messages
from wa_orchestrator.gateway.message_search import Filters
from wa_orchestrator.gateway.request_models import LONGEST_REFERENCE, BatchId, Instant, Phone, SessionId
from wa_orchestrator.gateway.response_models import (
    EmptiedQueue,
    MessageView,
    QueueItem,
    QueueResponse,
    WaitingList,
)
from wa_orchestrator.gateway.sender_pool import RECENT_S, SenderPool
from wa_orchestrator.messages import queue_forecast
from wa_orchestrator.store.access import audit
from wa_orchestrator.store.messages import open_messages, queues
from wa_orchestrator.store.messages.message_keys import Place
from wa_orchestrator.store.messages.queues import Ended, TooLate
from wa_orchestrator.timestamps import iso
from wa_orchestrator.web.auth import Caller, ReadCaller, SendCaller
from wa_orchestrator.web.models import RequestModel
from wa_orchestrator.web.problems import responses

SessionPath = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$", examples=["worker_1"])]
_MOST: Final = 1000
SESSION_ERRORS = responses(NO_SUCH_SESSION=404)


class WaitingFilters(RequestModel):
    """Which of the messages that wait; all filters must match."""

    session_id: SessionId | None = None
    to: Phone | None = None
    reference: Annotated[str, Field(min_length=1, max_length=LONGEST_REFERENCE)] | None = None
    batch_id: BatchId | None = None
    since: Instant | None = Field(None, alias="from", description="Accepted at or after this instant.")
    until: Instant | None = Field(None, description="Accepted at or before this instant.")
    due_from: Instant | None = Field(None, description="To leave at or after this instant, as asked or deferred.")
    due_until: Instant | None = Field(None, description="To leave at or before this instant, as asked or deferred.")

    def filters(self) -> Filters:
        """Return them as a search."""
        return Filters(
            to=self.to,
            session=self.session_id,
            reference=self.reference,
            batch=self.batch_id,
            from_ms=self.since,
            until_ms=self.until,
            due_from_ms=self.due_from,
            due_until_ms=self.due_until,
        )


class WaitingSearch(WaitingFilters):
    """The same, and how many are listed."""

    limit: Annotated[int, Field(ge=1, le=_MOST)] = _MOST


def router(context: Context, pool: SenderPool) -> APIRouter:
    """Return the routes of queues."""
    routes = APIRouter(prefix="/api/v1", tags=["messages"])
    api = _Queues(context, pool)
    routes.get("/queue")(api.list_waiting)
    routes.delete("/queue", responses=responses(FILTER_REQUIRED=422))(api.cancel_waiting)
    queue = "/queue/{session_id}"
    routes.get(queue, responses=SESSION_ERRORS)(api.get_queue)
    routes.delete(queue, responses=SESSION_ERRORS)(api.empty_queue)
    return routes


class _Queues:
    """One method per route."""

    def __init__(self, context: Context, pool: SenderPool) -> None:
        self._context = context
        self._scripts = context.scripts
        self._pool = pool

    async def get_queue(
        self,
        session_id: SessionPath,
        _caller: ReadCaller,
        limit: Annotated[int, Query(ge=1, le=_MOST)] = _MOST,
    ) -> QueueResponse:
        """List what waits for a session, in sending order: its queue, then scheduled and deferred messages."""
        snapshot, sender = await self._pool.find(session_id)
        phone = sender.session.phone
        forecast = await self._pool.forecast(snapshot, sender)
        lock_until_ms = sender.phone.lock_until
        queued = await queue_forecast.queue(self._scripts, phone, forecast, lock_until_ms=lock_until_ms, most=limit)
        waiting = await queue_forecast.waiting(self._scripts, self._context.settings, sender.session, snapshot.now_ms())
        items = [
            QueueItem(
                **response_models.view(each.message, self._context.settings.language),
                position=each.position,
                eta=None if each.eta.at_ms is None else iso(each.eta.at_ms),
                because=each.eta.because,
            )
            for each in queued
            if each.message.session == session_id
        ]
        counts = {"total": waiting.total, "now": waiting.now, "today": waiting.today, "later": waiting.later}
        return QueueResponse(session_id=session_id, phone=phone, **counts, messages=items)

    async def empty_queue(self, session_id: SessionPath, caller: SendCaller) -> EmptiedQueue:
        """Cancel all messages that wait for a session, also those scheduled or deferred."""
        _, sender = await self._pool.find(session_id)
        found = await open_messages.waiting(self._scripts, session_id, sender.session.phone)
        return await self._cancel(found, caller, session_id)

    async def list_waiting(
        self,
        _caller: ReadCaller,
        search: Annotated[WaitingSearch, Query()],
    ) -> WaitingList:
        """List and count the messages that wait, by session, recipient, reference, batch and time; newest first."""
        found = await waiting_messages.find(self._scripts, search.filters())
        snapshot = await self._pool.current(fresh_s=RECENT_S)
        counts = await waiting_messages.count(self._context, snapshot, found)
        shown = [MessageView(**response_models.view(each, self._context.settings.language)) for each in found]
        return WaitingList(total=len(found), **counts, messages=shown[: search.limit])

    async def cancel_waiting(self, caller: SendCaller, search: Annotated[WaitingFilters, Query()]) -> EmptiedQueue:
        """Cancel the messages that wait and match; at least one filter is required."""
        filters = search.filters()
        if filters == Filters():
            text = "Name what to cancel: sessionId, to, reference, batchId, or a time."
            raise Refused("FILTER_REQUIRED", text, 422)
        found = await waiting_messages.find(self._scripts, filters)
        places = [Place(each.id, each.phone, each.session) for each in found]
        return await self._cancel(places, caller, search.model_dump_json(exclude_none=True, by_alias=True))

    async def _cancel(self, places: Sequence[Place], caller: Caller, target: str) -> EmptiedQueue:
        """Cancel these. Each is a step of its own: after a crash, a repeat does the rest."""
        cancelled = too_late = 0
        for place in places:
            outcome = await queues.cancel(self._scripts, place, reason="CANCELLED")
            cancelled += isinstance(outcome, Ended)
            too_late += isinstance(outcome, TooLate)
        await audit.record(self._context.scripts, caller.key_id, "queue.empty", target, cancelled=cancelled)
        return EmptiedQueue(cancelled=cancelled, too_late=too_late)
