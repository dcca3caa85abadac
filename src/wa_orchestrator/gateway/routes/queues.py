"""Queues of sessions, and the messages that wait in them."""

from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import Path, Query
from pydantic import Field

from wa_orchestrator.context import Context
from wa_orchestrator.errors import Refused
from wa_orchestrator.gateway import waiting_messages
from wa_orchestrator.gateway.request_models import BatchId, Instant, Recipient, Reference, SessionId
from wa_orchestrator.gateway.response_models import EmptiedQueue, MessageView, QueueItem, QueueResponse, WaitingList
from wa_orchestrator.gateway.senders.sender_pool import RECENT_S, SenderPool
from wa_orchestrator.messages import queue_forecast
from wa_orchestrator.store.messages import open_messages, queues
from wa_orchestrator.store.messages.message_filters import Filters
from wa_orchestrator.store.messages.message_keys import Place
from wa_orchestrator.store.messages.queues import Ended, TooLate
from wa_orchestrator.store.records import Message
from wa_orchestrator.web.auth import Caller, LimitedReader, LimitedSender
from wa_orchestrator.web.models import RequestModel
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

SessionPath = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$", examples=["worker_1"])]
_MOST: Final = 1000
SESSION_ERRORS = responses(NO_SUCH_SESSION=404)


class WaitingFilters(RequestModel):
    """Which of the messages that wait; all filters must match."""

    session_id: SessionId | None = None
    to: Recipient | None = None
    reference: Reference | None = None
    batch_id: BatchId | None = None
    since: Instant | None = Field(None, alias="from", description="Accepted at or after this instant.")
    until: Instant | None = Field(None, description="Accepted at or before this instant.")
    due_from: Instant | None = Field(None, description="To leave at or after this instant, as asked or deferred.")
    due_until: Instant | None = Field(None, description="To leave at or before this instant, as asked or deferred.")

    def filters(self) -> Filters:
        """Return them as a search."""
        return Filters(**self.model_dump(exclude={"limit"}))


class WaitingSearch(WaitingFilters):
    """The same, and how many are listed."""

    limit: Annotated[int, Field(ge=1, le=_MOST)] = _MOST


class QueueRoutes(RouteGroup):
    """Routes `/api/v1/queue`."""

    def __init__(self, context: Context, pool: SenderPool) -> None:
        super().__init__(context, "/api/v1/queue", "messages")
        self._pool = pool
        self.get("")(self.list_waiting)
        self.delete("", responses=responses(FILTER_REQUIRED=422))(self.cancel_waiting)
        self.get("/{session_id}", responses=SESSION_ERRORS)(self.get_queue)
        self.delete("/{session_id}", responses=SESSION_ERRORS)(self.empty_queue)

    async def get_queue(
        self, session_id: SessionPath, caller: LimitedReader, limit: Annotated[int, Query(ge=1, le=_MOST)] = _MOST
    ) -> QueueResponse:
        """List what waits for a session, in sending order: its queue, then scheduled and deferred messages."""
        snapshot, sender = await self._pool.find(session_id, caller.reach)
        phone, limit_on_new = sender.session.phone, sender.phone.new_contacts
        forecast = await self._pool.forecast(snapshot, sender)
        queued = await queue_forecast.queue(self._scripts, phone, forecast, new_contacts=limit_on_new, most=limit)
        waiting = await queue_forecast.waiting(self._scripts, self._settings, sender.session, snapshot.now_ms())
        items = [
            QueueItem.show(
                each.message,
                self._settings.language,
                position=each.position,
                eta=each.eta.at_ms,
                because=each.eta.because,
            )
            for each in queued
            if each.message.session == session_id
        ]
        return QueueResponse.of(waiting, session_id=session_id, phone=phone, messages=items)

    async def empty_queue(self, session_id: SessionPath, caller: LimitedSender) -> EmptiedQueue:
        """Cancel all messages that wait for a session, also those scheduled or deferred."""
        _, sender = await self._pool.find(session_id, caller.reach)
        found = await open_messages.waiting(self._scripts, session_id, sender.session.phone)
        return await self._cancel(found, caller, session_id)

    async def list_waiting(self, caller: LimitedReader, search: Annotated[WaitingSearch, Query()]) -> WaitingList:
        """List and count the messages that wait, by session, recipient, reference, batch and time; newest first."""
        found = await self._find(caller, search.filters())
        snapshot = await self._pool.current(fresh_s=RECENT_S)
        counts = await waiting_messages.count(self._context, snapshot, found)
        shown = [MessageView.show(each, self._settings.language) for each in found[: search.limit]]
        return WaitingList(total=len(found), **counts, messages=shown)

    async def cancel_waiting(self, caller: LimitedSender, search: Annotated[WaitingFilters, Query()]) -> EmptiedQueue:
        """Cancel the messages that wait and match; at least one filter is required."""
        filters = search.filters()
        if filters == Filters():
            text = "Name what to cancel: sessionId, to, reference, batchId, or a time."
            raise Refused("FILTER_REQUIRED", text, 422)
        found = await self._find(caller, filters)
        target = search.model_dump_json(exclude_none=True, by_alias=True)
        return await self._cancel([Place.of(each) for each in found], caller, target)

    async def _find(self, caller: Caller, filters: Filters) -> list[Message]:
        among = await self._context.session_labels.reached(caller.reach)
        return await waiting_messages.find(self._scripts, self._context.archive, filters, among=among)

    async def _cancel(self, places: Sequence[Place], caller: Caller, target: str) -> EmptiedQueue:
        """Cancel these. Each is a step of its own: after a crash, a repeat does the rest."""
        cancelled = too_late = 0
        for place in places:
            outcome = await queues.cancel(self._scripts, place, reason="CANCELLED")
            cancelled += isinstance(outcome, Ended)
            too_late += isinstance(outcome, TooLate)
        await self._audit(caller, "queue.empty", target, cancelled=cancelled)
        return EmptiedQueue(cancelled=cancelled, too_late=too_late)
