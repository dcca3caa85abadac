"""Responses of the gateway, as pydantic serializes them and OpenAPI shows them."""

import json
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from wa_orchestrator.domain.messages.message import MessageStatus
from wa_orchestrator.domain.number_health import WarningCode
from wa_orchestrator.store.records import Message
from wa_orchestrator.texts import catalogue
from wa_orchestrator.texts.catalogue import text
from wa_orchestrator.web.models import NextCursor, OptionalText, OptionalTimestamp, ResponseModel
from wa_orchestrator.web.problems import ErrorDetail

EstimatedTime = Annotated[
    OptionalTimestamp, Field(description="Estimated time of sending; null if it depends on a person or on WhatsApp.")
]


class SendWarning(ResponseModel):
    """Why writing to this recipient, who never wrote to the phone, may harm it. Nothing is stopped by it."""

    code: WarningCode
    count: int | None = Field(
        default=None,
        description="With `NEW_NUMBER` the days since the phone was linked, with `STRANGERS_IN_A_ROW` how many people "
        "who never wrote it has written to before this one, in a row.",
    )


class AcceptedMessage(ResponseModel):
    """The message is in the queue, durably."""

    queued: Literal[True] = True
    message_id: str = Field(examples=["m_0a1b2c3d4e5f607182"])
    session_id: str = Field(examples=["worker_1"])
    position: int = Field(description="Position in the queue; 1 is next.")
    eta: EstimatedTime
    because: str = Field(description="What it waits for.", examples=["OUTSIDE_HOURS"])
    warning: str | None = Field(
        default=None,
        description="`EARLIER_UNCONFIRMED`: a message to this recipient within the last day was tried and never "
        "confirmed; they may have it. Search with `status=unknown` before you repeat its text.",
        examples=["EARLIER_UNCONFIRMED"],
    )
    warnings: list[SendWarning] | None = Field(
        default=None,
        description="Missing if there are none. The message waits in its queue meanwhile and can be cancelled.",
    )


class RefusedMessage(ResponseModel):
    """This message of a batch was refused."""

    queued: Literal[False] = False
    error: ErrorDetail


class BatchWarning(ResponseModel):
    """How many messages of a batch have this warning."""

    code: WarningCode
    messages: int


class BatchResponse(ResponseModel):
    """The outcome of each message, in their order."""

    batch_id: str = Field(description="Lists and cancels them together.", examples=["b_0a1b2c3d4e5f607182"])
    accepted: int
    refused: int
    last_eta: OptionalTimestamp = Field(
        description="When the last of them leaves; null if none was accepted, or one depends on a person or WhatsApp."
    )
    warnings: list[BatchWarning] | None = Field(default=None, description="Missing if there are none.")
    items: list[AcceptedMessage | RefusedMessage]


class Waiting(ResponseModel):
    """What a message waits for."""

    because: str = Field(examples=["OUTSIDE_HOURS"])
    text: str = Field(description="The reason as a sentence.")
    eta: EstimatedTime


class TimelineEntry(ResponseModel):
    """One change of a message's status."""

    at: OptionalTimestamp
    status: str
    note: str
    answer: OptionalText = Field(
        None,
        description="What ended an attempt, as the worker reported it: `WA_` and WhatsApp's own number, or a name. "
        "`note` is what follows from it.",
        examples=["WA_479"],
    )


class MessageView(ResponseModel):
    """A message in a list."""

    message_id: str = Field(examples=["m_0a1b2c3d4e5f607182"])
    session_id: str = Field(description="The session that sends it; empty while there is none.")
    phone: str = Field(description="The phone that sends it.")
    to: str = Field(description="The recipient.", examples=["972501234567"])
    status: MessageStatus
    reason: str = Field(description="Why it failed, expired or was cancelled; empty otherwise.")
    reason_text: str = Field(description="The reason as a sentence.")
    kind: str = Field(description="`text`, `location`, or how WhatsApp shows the file.", examples=["text", "image"])
    content: dict[str, Any] | None = Field(description="Null when it was erased after BODY_RETENTION_DAYS.")
    reference: str = Field(description="Your own name for it.")
    batch_id: str = Field(description="The batch it came with; empty where it came alone.")
    priority: int = Field(description="1 goes first.")
    attempts: int
    whatsapp_id: str = Field(description="Its id at WhatsApp, the same for every attempt.")
    chosen_because: str = Field(description="Why this session sends it, as a code.")
    accepted_at: OptionalTimestamp
    send_at: OptionalTimestamp
    expires_at: OptionalTimestamp
    sent_at: OptionalTimestamp
    delivered_at: OptionalTimestamp
    read_at: OptionalTimestamp
    edited_at: OptionalTimestamp = Field(description="When its text was changed for everyone.")
    deleted_at: OptionalTimestamp = Field(description="When it was deleted for everyone.")

    @classmethod
    def show(cls, message: Message, language: str, **more: object) -> Self:
        """Return a message with its texts in a language."""
        failure = catalogue.message_failure(language, message.reason, message.status)
        return cls.of(
            message,
            message_id=message.id,
            session_id=message.session,
            reason_text=failure or text(language, f"wait_reason.{message.reason}"),
            kind=message.kind or "text",
            content=json.loads(message.body) if message.body else None,
            batch_id=message.batch,
            chosen_because=message.why,
            send_at=message.due_at,
            **more,
        )


class MessageDetail(MessageView):
    """A message with its timeline and, while it waits, what it waits for."""

    timeline: list[TimelineEntry]
    waiting: Waiting | None = None


class MessagePage(ResponseModel):
    """A page of messages, the newest first. A page may be short or empty and still have a `next`."""

    messages: list[MessageView]
    next: NextCursor
    complete: bool = Field(
        description="False where this process cannot read the archive: only fresh messages are listed."
    )


class QueueItem(MessageView):
    """A message that waits in a queue."""

    position: int
    eta: OptionalTimestamp
    because: str


class QueueResponse(ResponseModel):
    """What waits for a session, in sending order: its queue, then scheduled and deferred messages."""

    session_id: str
    phone: str
    total: int = Field(description="Messages that wait for the phone, including those of its other sessions.")
    now: int = Field(description="Of these, in the queue and within today's limit.")
    today: int = Field(description="Of these, scheduled for today, or waiting for today's hours.")
    later: int = Field(description="Of these, for another day: scheduled, deferred, or beyond today's limit.")
    messages: list[QueueItem]


class WaitingList(ResponseModel):
    """The messages that wait and match, the newest first."""

    total: int
    now: int = Field(description="Of these, in their queues and within today's limits.")
    today: int = Field(description="Of these, scheduled for today, or waiting for today's hours.")
    later: int = Field(description="Of these, for another day: scheduled, deferred, or beyond today's limits.")
    messages: list[MessageView]


class EmptiedQueue(ResponseModel):
    """How many messages were cancelled, and how many a worker had claimed already."""

    cancelled: int
    too_late: int


class DayStats(ResponseModel):
    """One day of a session, in its own time zone."""

    date: str = Field(description="`total` for all days together.", examples=["2026-01-31"])
    sent: int
    delivered: int
    read: int
    failed: int
    unknown: int = Field(description="Tried, never confirmed: the recipient may have it.")


class SessionStats(ResponseModel):
    """A session's messages by day, the latest first."""

    session_id: str
    total: DayStats
    days: list[DayStats]


class TotalDayStats(DayStats):
    """One day of all sessions. `failedWithoutSender` of `failed` and `unknown` are counted by no session."""

    failed_without_sender: int


class TotalStats(ResponseModel):
    """The messages of all sessions by day, removed ones included, the latest first, and those without a sender."""

    total: TotalDayStats
    days: list[TotalDayStats]


class StoredUpload(ResponseModel):
    """A stored file. `uploadId` goes into `media.upload`."""

    upload_id: str
    mimetype: str
    filename: str
    size: int
    kind: str
    expires_at: OptionalTimestamp
