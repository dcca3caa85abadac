"""What became of a message: look, search, cancel, retry."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query
from pydantic import Field

from wa_orchestrator.domain.message import Status
from wa_orchestrator.errors import Refused
from wa_orchestrator.gateway import searching, shapes, waiting
from wa_orchestrator.gateway.bodies import LONGEST_REFERENCE, Instant, Phone, SessionId
from wa_orchestrator.gateway.fleet import FleetView
from wa_orchestrator.gateway.searching import Question
from wa_orchestrator.gateway.shapes import MessageDetail, MessagePage, MessageView, Moment
from wa_orchestrator.store import queueing, reading
from wa_orchestrator.store.places import Place
from wa_orchestrator.store.queueing import Ended, Gone, OptedOut, TooLate
from wa_orchestrator.store.reading import Message
from wa_orchestrator.web import paging
from wa_orchestrator.web.auth import Scope, requires
from wa_orchestrator.web.context import Context
from wa_orchestrator.web.problems import Body, responses
from wa_orchestrator.web.times import iso

MessageId = Annotated[str, Path(pattern=r"^m_[0-9a-f]{18}$", examples=["m_0a1b2c3d4e5f607182"])]
_LOOK = responses(
    API_KEY_MISSING=401, SCOPE_MISSING=403, NO_SUCH_MESSAGE=404, VALIDATION_FAILED=422, STORE_UNAVAILABLE=503
)
_FIND = responses(BAD_CURSOR=400, API_KEY_MISSING=401, SCOPE_MISSING=403, VALIDATION_FAILED=422, STORE_UNAVAILABLE=503)
_CHANGE = {**_LOOK, **responses(TOO_LATE=409, OPTED_OUT=422)}


class Search(Body):
    """What is searched for. `recipient` and `session` are other names for `to` and `sessionId`."""

    to: Phone | None = None
    recipient: Phone | None = None
    session_id: SessionId | None = None
    session: SessionId | None = None
    status: Status | None = None
    reference: Annotated[str, Field(min_length=1, max_length=LONGEST_REFERENCE)] | None = None
    since: Instant | None = Field(None, alias="from", description="Accepted at or after this instant.")
    until: Instant | None = Field(None, description="Accepted at or before this instant.")
    cursor: Annotated[str, Field(max_length=200)] | None = None
    limit: Annotated[int, Field(ge=1, le=paging.MOST)] = 50

    def question(self) -> Question:
        """Give what the search needs."""
        return Question(
            self.to or self.recipient,
            self.session_id or self.session,
            self.status,
            self.reference,
            self.since,
            self.until,
        )


def router(context: Context, view: FleetView) -> APIRouter:
    """Offer the routes about single messages and the search."""
    routes = APIRouter(prefix="/api/v1/messages", tags=["messages"])
    scripts, language = context.scripts, context.settings.language

    async def found(message_id: str) -> Message:
        message = await reading.message(scripts, message_id)
        if message is None:
            raise Refused("NO_SUCH_MESSAGE", "There is no such message; it may have been erased after a while.", 404)
        return message

    async def detail(message_id: str) -> MessageDetail:
        message = await found(message_id)
        story = await reading.story(scripts, message_id)
        eta = await waiting.waits_for(scripts, view, message)
        return MessageDetail(
            **shapes.view(message, language),
            timeline=[Moment(at=iso(at), status=status, note=note) for at, status, note in story],
            waiting=None if eta is None else shapes.waiting(eta, language),
        )

    @routes.get("", summary="Search messages", responses=_FIND, dependencies=[Depends(requires(Scope.READ))])
    async def search(asked: Annotated[Search, Query()]) -> MessagePage:
        cursor, limit = asked.cursor, asked.limit
        question = asked.question()
        messages, following = await searching.search(scripts, question, cursor=cursor, limit=limit)
        return MessagePage(
            messages=[MessageView(**shapes.view(message, language)) for message in messages], next=following
        )

    @routes.get("/{message_id}", summary="One message", responses=_LOOK, dependencies=[Depends(requires(Scope.SEND))])
    @routes.get(
        "/{message_id}/status",
        summary="One message, by another name",
        responses=_LOOK,
        dependencies=[Depends(requires(Scope.SEND))],
    )
    async def look(message_id: MessageId) -> MessageDetail:
        return await detail(message_id)

    @routes.delete(
        "/{message_id}",
        summary="Cancel a message that no worker has claimed",
        responses=_CHANGE,
        dependencies=[Depends(requires(Scope.SEND))],
    )
    async def cancel(message_id: MessageId) -> MessageDetail:
        message = await found(message_id)
        outcome = await queueing.cancel(scripts, _place(message), reason="CANCELLED")
        match outcome:
            case TooLate(status) if status != Status.CANCELLED:
                raise _too_late("TOO_LATE", f"It is {status} already and cannot be taken back.", status)
            case Gone():
                await found(message_id)
            case Ended() | TooLate():
                pass
        return await detail(message_id)

    @routes.post(
        "/{message_id}/retry",
        summary="Give a failed message a new start, with the same WhatsApp id",
        responses=_CHANGE,
        dependencies=[Depends(requires(Scope.SEND))],
    )
    async def retry(message_id: MessageId) -> MessageDetail:
        message = await found(message_id)
        if "body" not in message.fields:
            raise Refused("TEXT_ERASED", "Its text was erased after a while. Send a new message.", 409)
        outcome = await queueing.retry(scripts, _place(message), to=message.to)
        match outcome:
            case TooLate(status):
                raise _too_late("NOT_FAILED", f"It is {status}; only a failed message is retried.", status)
            case OptedOut():
                raise Refused("OPTED_OUT", "The recipient does not want to be written to.", 422)
            case _:
                return await detail(message_id)

    return routes


def _too_late(code: str, text: str, status: str) -> Refused:
    refused = Refused(code, text, 409)
    refused.details["status"] = status
    return refused


def _place(message: Message) -> Place:
    return Place(message.id, message.phone, message.session)
