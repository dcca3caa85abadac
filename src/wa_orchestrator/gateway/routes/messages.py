"""Messages: get, search, cancel, retry, confirm, send again."""

import json
from typing import Annotated, Final

from fastapi import Path, Query
from pydantic import Field

from wa_orchestrator.context import Context
from wa_orchestrator.domain.messages.message import SUCCEEDED, WAITING, MessageStatus
from wa_orchestrator.domain.pacing.forecast import Eta
from wa_orchestrator.errors import Refused
from wa_orchestrator.gateway import idempotency
from wa_orchestrator.gateway.acceptance import Acceptor, SendReply, SendRequest
from wa_orchestrator.gateway.request_models import BatchId, Instant, Recipient, Reference, SendBody, SessionId
from wa_orchestrator.gateway.response_models import (
    AcceptedMessage,
    MessageDetail,
    MessagePage,
    MessageView,
    TimelineEntry,
    Waiting,
)
from wa_orchestrator.gateway.routes.raw_route import outages_as_unavailable
from wa_orchestrator.gateway.senders.sender_pool import RECENT_S, SenderPool
from wa_orchestrator.messages import message_lookup, message_search
from wa_orchestrator.messages.queue_forecast import NO_LIMIT, message_eta
from wa_orchestrator.messages.session_pace import day_of
from wa_orchestrator.store import records
from wa_orchestrator.store.engine.compare_and_set import Changed, compare_and_set
from wa_orchestrator.store.messages import queues
from wa_orchestrator.store.messages.message_filters import Filters
from wa_orchestrator.store.messages.message_keys import Place, counted_in
from wa_orchestrator.store.messages.queues import AlreadySent, Confirmed, Ended, Gone, MustEnd, Queued, TooLate
from wa_orchestrator.store.records import Message, answers_of
from wa_orchestrator.texts.catalogue import text
from wa_orchestrator.timestamps import iso
from wa_orchestrator.web import paging
from wa_orchestrator.web.auth import Caller, LimitedReader, LimitedSender
from wa_orchestrator.web.models import RequestModel
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

MessageId = Annotated[str, Path(pattern=r"^m_[0-9a-f]{18}$", examples=["m_0a1b2c3d4e5f607182"])]
_GET_ERRORS = responses(NO_SUCH_MESSAGE=404)
_CHANGE_ERRORS = {**_GET_ERRORS, **responses(TOO_LATE=409, OPTED_OUT=422)}
_DOUBT_ERRORS = {**_GET_ERRORS, **responses(NOT_UNKNOWN=409)}
_CANCELLED: Final = "CANCELLED"
#: Of a message that was cancelled after an attempt: nothing more of it is written, and its recipient may have it.
_CANCELLED_IN_DOUBT: Final = (MessageStatus.UNKNOWN, _CANCELLED)
#: A copy with one of these is on its way, or has arrived, or nobody knows: another one would be a third.
_UNDER_WAY: Final = WAITING | SUCCEEDED | {MessageStatus.SENDING, MessageStatus.UNKNOWN}


class Search(RequestModel):
    """Search filters. `recipient` and `session` are other names for `to` and `sessionId`."""

    to: Recipient | None = None
    recipient: Recipient | None = None
    session_id: SessionId | None = None
    session: SessionId | None = None
    status: MessageStatus | None = None
    reference: Reference | None = None
    batch_id: BatchId | None = None
    text: Annotated[str, Field(max_length=200)] | None = Field(
        None, description="Contains all of these words, as whole words; case and accents do not matter."
    )
    since: Instant | None = Field(None, alias="from", description="Accepted at or after this instant.")
    until: Instant | None = Field(None, description="Accepted at or before this instant.")
    cursor: Annotated[str, Field(max_length=200)] | None = None
    limit: Annotated[int, Field(ge=1, le=paging.MOST)] = 50

    def filters(self) -> Filters:
        """Return the filters without their other names."""
        return Filters(
            to=self.to or self.recipient,
            session_id=self.session_id or self.session,
            statuses=[self.status] if self.status else (),
            **self.model_dump(include={"reference", "batch_id", "text", "since", "until"}),
        )


class MessageRoutes(RouteGroup):
    """Routes `/api/v1/messages`."""

    def __init__(self, context: Context, pool: SenderPool, acceptor: Acceptor) -> None:
        super().__init__(context, "/api/v1/messages", "messages")
        self._pool, self._acceptor = pool, acceptor
        self._archive = context.archive
        one = "/{message_id}"
        self.get("", responses=responses(BAD_CURSOR=400))(self.search_messages)
        self.get(f"{one}/status", name="get_message_status", responses=_GET_ERRORS)(self.get_message)
        self.get(one, responses=_GET_ERRORS)(self.get_message)
        self.delete(one, responses=_CHANGE_ERRORS)(self.cancel_message)
        self.post(f"{one}/retry", responses=_CHANGE_ERRORS)(self.retry_message)
        self.post(f"{one}/confirm", responses=_DOUBT_ERRORS)(self.confirm_message)
        again = _DOUBT_ERRORS | responses(OPTED_OUT=422, QUEUE_FULL=429)
        self.post(f"{one}/send-again", status_code=202, response_model_exclude_unset=True, responses=again)(
            self.send_message_again
        )

    async def search_messages(self, caller: LimitedReader, search: Annotated[Search, Query()]) -> MessagePage:
        """Search messages."""
        after = None if search.cursor is None else paging.decode_entry(search.cursor)
        both, among = (self._scripts, self._archive), await self._context.session_labels.reached(caller.reach)
        found, last = await message_search.search(*both, search.filters(), among=among, after=after, limit=search.limit)
        shown = [MessageView.show(message, self._settings.language) for message in found]
        following = None if last is None else paging.encode(f"{last[1]} {last[0]}")
        return MessagePage(messages=shown, next=following, complete=await message_search.is_complete(*both))

    async def get_message(self, message_id: MessageId, caller: LimitedSender) -> MessageDetail:
        """Get a message with its timeline and what it waits for."""
        return await self._detail(message_id, caller)

    async def cancel_message(self, message_id: MessageId, caller: LimitedSender) -> MessageDetail:
        """Cancel a message that no worker has claimed. One that was tried, and may have arrived, ends as `unknown`."""
        match await self._cancel(message_id, caller):
            case TooLate(status) if status != MessageStatus.CANCELLED:
                raise _too_late("TOO_LATE", "Only a message that no worker has claimed can be cancelled.", status)
            case Ended():
                await self._audit(caller, "message.cancel", message_id)
        return await self._detail(message_id, caller)

    @compare_and_set("Message {message_id}", code="MESSAGE_MOVES")
    async def _cancel(self, message_id: str, caller: Caller) -> Ended | TooLate | Changed | None:
        """Cancel a message, again when it moves to another sender at the same time; None if it was cancelled before."""
        message = await self._found(message_id, caller)
        if message.status is MessageStatus.CANCELLED or (message.status, message.reason) == _CANCELLED_IN_DOUBT:
            return None
        if message.status not in WAITING:
            return TooLate(message.status)
        outcome = await queues.cancel(self._scripts, Place.of(message), reason=_CANCELLED)
        return Changed() if isinstance(outcome, Gone) else outcome

    async def retry_message(self, message_id: MessageId, caller: LimitedSender) -> MessageDetail:
        """Queue a message that was given up (failed or unknown) again, with the same WhatsApp id."""
        message = await self._found(message_id, caller)
        if not message.body:
            raise Refused("TEXT_ERASED", "Its text was erased after BODY_RETENTION_DAYS. Send a new message.", 409)
        place = await message_lookup.restored(self._scripts, self._archive, message_id) or Place.of(message)
        match await queues.retry(self._scripts, place, to=message.to):
            case TooLate(status):
                raise _too_late("NOT_FAILED", "Only one that was given up can be retried.", status)
            case MustEnd():
                text = "The recipient opted out. Remove the opt-out first: /api/v1/opt-outs."
                raise Refused("OPTED_OUT", text, 422)
            case Queued():
                await self._audit(caller, "message.retry", message_id)
                return await self._detail(message_id, caller)

    async def confirm_message(self, message_id: MessageId, caller: LimitedSender) -> MessageDetail:
        """Settle an unknown message as sent, because you know that the recipient has it. Nothing is sent."""
        message = await self._found(message_id, caller)
        place = await message_lookup.restored(self._scripts, self._archive, message_id) or Place.of(message)
        session = await records.session(self._scripts, place.session)
        day = day_of(self._settings, session, await self._scripts.now_ms())
        match await queues.confirm(self._scripts, place, to=message.to, counted=counted_in(place.session, day)):
            case TooLate(status):
                raise _too_late("NOT_UNKNOWN", "Only one of unknown outcome can be confirmed.", status)
            case Confirmed():
                await self._audit(caller, "message.confirm", message_id)
            case AlreadySent():  # WhatsApp or another person was faster
                pass
        return await self._detail(message_id, caller)

    async def send_message_again(self, message_id: MessageId, caller: LimitedSender) -> AcceptedMessage:
        """Send an unknown message again as a new one, from the same session; the old one stays as it is. Whoever has
        the old one gets it twice; a retry, with the same WhatsApp id, would not do that. A repeat returns the same one.
        """
        message = await self._found(message_id, caller)
        if message.status is not MessageStatus.UNKNOWN:
            raise _too_late("NOT_UNKNOWN", "Only one of unknown outcome can be sent again.", message.status)
        if not message.body:
            raise Refused("TEXT_ERASED", "Its text was erased after BODY_RETENTION_DAYS. Send a new message.", 409)
        await self._acceptor.count_call(caller.key_id)
        with outages_as_unavailable():
            reply = await self._send_copy(message, caller)
        return AcceptedMessage.model_validate_json(reply.json)

    async def _send_copy(self, message: Message, caller: Caller) -> SendReply:
        """Accept a copy of a message, once: a second one only after the first has ended without being sent."""
        known = {"to": message.to, "sessionId": message.session, "reference": message.reference or None}
        body = SendBody.model_validate(known | {"priority": message.priority, "onLimit": "defer"})
        content = (message.kind, message.body)
        number = 0
        while True:
            record = idempotency.record_of(f"again:{message.id}", str(number), b"")
            request = SendRequest(body, content, caller.key_id, record, reach=caller.reach)
            reply = await self._acceptor.accept(request)
            copy_id = str(json.loads(reply.json)["messageId"])
            if not reply.is_replay:
                await self._audit(caller, "message.again", message.id, copy=copy_id)
                return reply
            copy = await message_lookup.message(self._scripts, self._archive, copy_id)
            if copy is not None and copy.status in _UNDER_WAY:
                return reply
            number += 1

    async def _found(self, message_id: str, caller: Caller) -> Message:
        message = await message_lookup.message(self._scripts, self._archive, message_id)
        if message is None:
            both, text = (self._scripts, self._archive), message_search.MAY_BE_THERE
            await message_search.require_complete(*both, text, messageId=message_id)
        reaches = await self._context.session_labels.filter_for(caller.reach)
        if message is None or not reaches(message.session):
            text = "There is no such message; it may have been erased. GET /api/v1/messages lists those that are kept."
            raise Refused("NO_SUCH_MESSAGE", text, 404, messageId=message_id)
        return message

    async def _detail(self, message_id: str, caller: Caller) -> MessageDetail:
        message = await self._found(message_id, caller)
        eta, language = await self._eta(message), self._settings.language
        timeline = await message_lookup.timeline(self._scripts, self._archive, message_id)
        answers = answers_of(message)
        return MessageDetail.show(
            message,
            language,
            timeline=[
                TimelineEntry(at=iso(at), status=status, note=note, answer=answers.get(at) if note else None)
                for at, status, note in timeline
            ],
            waiting=eta and Waiting.of(eta, text=text(language, f"wait_reason.{eta.because}"), eta=eta.at_ms),
        )

    async def _eta(self, message: Message) -> Eta | None:
        snapshot = await self._pool.current(fresh_s=RECENT_S)
        forecast, limit, now_ms = None, NO_LIMIT, snapshot.now_ms()
        if sender := snapshot.senders.get(message.session):
            forecast, limit = await self._pool.forecast(snapshot, sender), sender.phone.new_contacts
        return await message_eta(self._scripts, forecast, message, new_contacts=limit, now_ms=now_ms)


def _too_late(code: str, rule: str, status: str) -> Refused:
    refused = Refused(code, f"The message is {status}. {rule}", 409)
    refused.details["status"] = status  # as a keyword it would be the HTTP status
    return refused
