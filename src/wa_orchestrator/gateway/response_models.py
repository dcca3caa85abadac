"""How messages look to a client: their status, their timeline, and what they wait for."""

import json
from typing import Any

from pydantic import Field

from wa_orchestrator.domain.pacing import Eta
from wa_orchestrator.store.records import Message
from wa_orchestrator.texts.catalogue import text
from wa_orchestrator.timestamps import iso
from wa_orchestrator.web.models import ResponseModel


class Waiting(ResponseModel):
    """What a message waits for."""

    because: str = Field(examples=["OUTSIDE_HOURS"])
    text: str = Field(description="One sentence for a person.")
    eta: str | None = Field(description="When it will leave; null when that depends on somebody's act.")


class Moment(ResponseModel):
    """One step of a message's life."""

    at: str | None
    status: str
    note: str


class MessageView(ResponseModel):
    """A message as lists show it."""

    message_id: str
    session_id: str
    phone: str
    to: str
    status: str
    reason: str = Field(description="Why it failed, ended or was taken back; empty otherwise.")
    reason_text: str
    kind: str
    content: dict[str, Any] | None = Field(description="What it carries; null when its text was erased.")
    reference: str
    priority: int
    attempts: int
    whatsapp_id: str
    chosen_because: str
    accepted_at: str | None
    send_at: str | None
    expires_at: str | None
    sent_at: str | None
    delivered_at: str | None
    read_at: str | None


class MessageDetail(MessageView):
    """A message with its timeline and, while it waits, what it waits for."""

    timeline: list[Moment]
    waiting: Waiting | None = None


class MessagePage(ResponseModel):
    """A page of messages, the newest first. A page may be short or empty and still have a `next`."""

    messages: list[MessageView]
    next: str | None = Field(description="The cursor of the next page; null at the end.")


class QueueItem(MessageView):
    """A message that waits in a queue."""

    position: int
    eta: str | None
    because: str


class QueueAnswer(ResponseModel):
    """What waits for a session, in the order in which it leaves."""

    session_id: str
    phone: str
    total: int = Field(description="How many wait for the phone, those of its other sessions among them.")
    messages: list[QueueItem]


class EmptiedAnswer(ResponseModel):
    """How many messages were cancelled, and how many had left already."""

    cancelled: int
    too_late: int


class Day(ResponseModel):
    """One day of a session, in its own time zone."""

    date: str
    sent: int
    delivered: int
    read: int
    failed: int


class StatsAnswer(ResponseModel):
    """A session's messages by day, the latest first."""

    session_id: str
    total: Day
    days: list[Day]


class FleetDay(Day):
    """One day of all sessions together. `failed` contains `failedWithoutSender`, which no session counts."""

    failed_without_sender: int


class FleetStatsAnswer(ResponseModel):
    """The messages of all sessions that exist by day, the latest first; with those that found none to send them."""

    total: FleetDay
    days: list[FleetDay]


class UploadAnswer(ResponseModel):
    """A stored file. `uploadId` goes into `media.upload`."""

    upload_id: str
    mimetype: str
    filename: str
    size: int
    kind: str
    expires_at: str | None


def view(message: Message, language: str) -> dict[str, Any]:
    """Give the fields of a `MessageView`."""
    return {
        "message_id": message.id,
        "session_id": message.session,
        "phone": message.phone,
        "to": message.to,
        "status": message.status,
        "reason": message.reason,
        "reason_text": _sentence(message.reason, language),
        "kind": message.kind or "text",
        "content": json.loads(message.body) if message.body else None,
        "reference": message.reference,
        "priority": message.priority,
        "attempts": message.attempts,
        "whatsapp_id": message.whatsapp_id,
        "chosen_because": message.why,
        "accepted_at": iso(message.accepted_at),
        "send_at": iso(message.due_at),
        "expires_at": iso(message.expires_at),
        "sent_at": iso(message.sent_at),
        "delivered_at": iso(message.delivered_at),
        "read_at": iso(message.read_at),
    }


def waiting(eta: Eta, language: str) -> Waiting:
    """Say what a message waits for."""
    at = None if eta.at_ms is None else iso(eta.at_ms)
    return Waiting(because=eta.because, text=text(language, f"wait_reason.{eta.because}"), eta=at)


def _sentence(reason: str, language: str) -> str:
    return text(language, f"message_failure.{reason}") or text(language, f"wait_reason.{reason}")
