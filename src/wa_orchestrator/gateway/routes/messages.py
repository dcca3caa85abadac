"""Messages: get, search, cancel, retry."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field

from wa_orchestrator.context import Context
from wa_orchestrator.domain.message import MessageStatus
from wa_orchestrator.domain.pacing.forecast import Eta
from wa_orchestrator.errors import Refused
from wa_orchestrator.gateway import message_search, response_models
from wa_orchestrator.gateway.message_search import Filters
from wa_orchestrator.gateway.request_models import LONGEST_REFERENCE, BatchId, Instant, Phone, SessionId
from wa_orchestrator.gateway.response_models import MessageDetail, MessagePage, MessageView, TimelineEntry
from wa_orchestrator.gateway.sender_pool import RECENT_S, SenderPool
from wa_orchestrator.messages.queue_forecast import message_eta
from wa_orchestrator.store import records
from wa_orchestrator.store.access import audit
from wa_orchestrator.store.engine.compare_and_set import Changed, compare_and_set
from wa_orchestrator.store.messages import queues
from wa_orchestrator.store.messages.message_keys import Place
from wa_orchestrator.store.messages.queues import Ended, Gone, MustEnd, Queued, TooLate
from wa_orchestrator.store.records import Message
from wa_orchestrator.timestamps import iso
from wa_orchestrator.web import paging
from wa_orchestrator.web.auth import ReadCaller, SendCaller
from wa_orchestrator.web.models import RequestModel
from wa_orchestrator.web.problems import responses

MessageId = Annotated[str, Path(pattern=r"^m_[0-9a-f]{18}$", examples=["m_0a1b2c3d4e5f607182"])]
_GET_ERRORS = responses(NO_SUCH_MESSAGE=404)
_SEARCH_ERRORS = responses(BAD_CURSOR=400)
_CHANGE_ERRORS = {**_GET_ERRORS, **responses(TOO_LATE=409, OPTED_OUT=422)}


class Search(RequestModel):
    """Search filters. `recipient` and `session` are other names for `to` and `sessionId`."""

    to: Phone | None = None
    recipient: Phone | None = None
    session_id: SessionId | None = None
    session: SessionId | None = None
    status: MessageStatus | None = None
    reference: Annotated[str, Field(min_length=1, max_length=LONGEST_REFERENCE)] | None = None
    batch_id: BatchId | None = None
    since: Instant | None = Field(None, alias="from", description="Accepted at or after this instant.")
    until: Instant | None = Field(None, description="Accepted at or before this instant.")
    cursor: Annotated[str, Field(max_length=200)] | None = None
    limit: Annotated[int, Field(ge=1, le=paging.MOST)] = 50

    def filters(self) -> Filters:
        """Return the filters without their other names."""
        return Filters(
            self.to or self.recipient,
            self.session_id or self.session,
            self.status,
            self.reference,
            self.since,
            self.until,
            self.batch_id,
        )


def router(context: Context, pool: SenderPool) -> APIRouter:
    """Return the routes of messages."""
    routes = APIRouter(prefix="/api/v1/messages", tags=["messages"])
    api = _Messages(context, pool)
    one = "/{message_id}"
    routes.get("", responses=_SEARCH_ERRORS)(api.search_messages)
    routes.get(f"{one}/status", name="get_message_status", responses=_GET_ERRORS)(api.get_message)
    routes.get(one, responses=_GET_ERRORS)(api.get_message)
    routes.delete(one, responses=_CHANGE_ERRORS)(api.cancel_message)
    routes.post(f"{one}/retry", responses=_CHANGE_ERRORS)(api.retry_message)
    return routes


class _Messages:
    """One method per route."""

    def __init__(self, context: Context, pool: SenderPool) -> None:
        self._context = context
        self._scripts = context.scripts
        self._language = context.settings.language
        self._pool = pool

    async def search_messages(self, _caller: ReadCaller, search: Annotated[Search, Query()]) -> MessagePage:
        """Search messages."""
        found, following = await message_search.search(
            self._scripts, search.filters(), cursor=search.cursor, limit=search.limit
        )
        shown = [MessageView(**response_models.view(message, self._language)) for message in found]
        return MessagePage(messages=shown, next=following)

    async def get_message(self, message_id: MessageId, _caller: SendCaller) -> MessageDetail:
        """Get a message with its timeline and what it waits for."""
        return await self._detail(message_id)

    async def cancel_message(self, message_id: MessageId, caller: SendCaller) -> MessageDetail:
        """Cancel a message that no worker has claimed."""
        match await self._cancel(message_id):
            case TooLate(status) if status != MessageStatus.CANCELLED:
                raise _too_late(
                    "TOO_LATE",
                    f"The message is {status}. Only a message that no worker has claimed can be cancelled.",
                    status,
                )
            case Ended():
                await audit.record(self._context.scripts, caller.key_id, "message.cancel", message_id)
            case TooLate():
                pass
        return await self._detail(message_id)

    @compare_and_set("The message", code="MESSAGE_MOVES")
    async def _cancel(self, message_id: str) -> Ended | TooLate | Changed:
        """Cancel a message; retried when it moves to another sender at the same time."""
        message = await self._found(message_id)
        outcome = await queues.cancel(self._scripts, _place(message), reason="CANCELLED")
        return Changed() if isinstance(outcome, Gone) else outcome

    async def retry_message(self, message_id: MessageId, caller: SendCaller) -> MessageDetail:
        """Queue a message that was given up (failed or unknown) again, with the same WhatsApp id."""
        message = await self._found(message_id)
        if not message.body:
            raise Refused("TEXT_ERASED", "Its text was erased after BODY_RETENTION_DAYS. Send a new message.", 409)
        outcome = await queues.retry(self._scripts, _place(message), to=message.to)
        match outcome:
            case TooLate(status):
                raise _too_late(
                    "NOT_FAILED", f"The message is {status}. Only one that was given up can be retried.", status
                )
            case MustEnd():
                raise Refused(
                    "OPTED_OUT",
                    "The recipient opted out. Remove the opt-out first: /api/v1/opt-outs.",
                    422,
                )
            case Queued():
                await audit.record(self._context.scripts, caller.key_id, "message.retry", message_id)
                return await self._detail(message_id)

    async def _found(self, message_id: str) -> Message:
        message = await records.message(self._scripts, message_id)
        if message is None:
            raise Refused(
                "NO_SUCH_MESSAGE",
                "There is no such message; it may have been erased. GET /api/v1/messages lists those that are kept.",
                404,
                messageId=message_id,
            )
        return message

    async def _detail(self, message_id: str) -> MessageDetail:
        message = await self._found(message_id)
        timeline = await records.timeline(self._scripts, message_id)
        eta = await self._eta(message)
        return MessageDetail(
            **response_models.view(message, self._language),
            timeline=[TimelineEntry(at=iso(at), status=status, note=note) for at, status, note in timeline],
            waiting=None if eta is None else response_models.waiting(eta, self._language),
        )

    async def _eta(self, message: Message) -> Eta | None:
        snapshot = await self._pool.current(fresh_s=RECENT_S)
        sender = snapshot.senders.get(message.session)
        forecast = None if sender is None else await self._pool.forecast(snapshot, sender)
        lock_until_ms = 0 if sender is None else sender.phone.lock_until
        return await message_eta(
            self._scripts, forecast, message, lock_until_ms=lock_until_ms, now_ms=snapshot.now_ms()
        )


def _too_late(code: str, text: str, status: str) -> Refused:
    refused = Refused(code, text, 409)
    refused.details["status"] = status  # as a keyword it would be the HTTP status
    return refused


def _place(message: Message) -> Place:
    return Place(message.id, message.phone, message.session)
