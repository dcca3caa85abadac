"""Worker outbox: claim, renew, ack, nack."""

import json
import random
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain import content
from wa_orchestrator.domain.message_failures import Failure
from wa_orchestrator.domain.pacing.hours import hours_bounds_ms
from wa_orchestrator.errors import Broken, Refused
from wa_orchestrator.messages.session_pace import at_scale, day_of, hold_fields, pace_of, zone_of
from wa_orchestrator.orchestrator.messages import ban_hold, reachout_lock, receipts, retry_policy
from wa_orchestrator.orchestrator.workers import tokens
from wa_orchestrator.store import records, sessions
from wa_orchestrator.store.messages import holds, outbox
from wa_orchestrator.store.messages.message_keys import Place
from wa_orchestrator.store.outcomes import Fenced, Unknown
from wa_orchestrator.store.records import Message, Session
from wa_orchestrator.store.sessions import commands
from wa_orchestrator.web.models import ResponseModel

log = structlog.get_logger(__name__)
_dice = random.SystemRandom().random


class ClaimedLocation(ResponseModel):
    """A place to send."""

    latitude: float
    longitude: float
    name: str | None
    address: str | None


class ClaimedMedia(ResponseModel):
    """A file to send."""

    url: str | None
    mimetype: str
    filename: str | None
    caption: str | None


class ClaimedMessage(ResponseModel):
    """A message for the worker that claimed it."""

    message_id: str
    whatsapp_id: str
    to: str
    attempt: int
    lease_ms: int
    kind: str
    text: str | None = None
    location: ClaimedLocation | None = None
    media: ClaimedMedia | None = None


class ClaimedCommand(ResponseModel):
    """A command for the worker."""

    command: dict[str, Any]


class OutboxService:
    """Hands messages and commands to workers, and records the results they report."""

    def __init__(self, context: Context) -> None:
        """Serve from this context's store."""
        self._context = context
        self._scripts = context.scripts
        self._settings = context.settings

    @property
    def _lease_ms(self) -> int:
        return int(self._settings.scaled(self._settings.lease_ms))

    async def claim(self, session: Session, accept: Collection[str]) -> ClaimedMessage | ClaimedCommand | None:
        """Return the session's next command or message as its worker reads it; None when there is none."""
        if "commands" in accept:
            command = await commands.take(self._context.scripts, session.id)
            if command is not None:
                return ClaimedCommand(command=command)
        return await self._claim_message(session) if "messages" in accept else None

    async def _claim_message(self, session: Session) -> ClaimedMessage | None:
        # Read each time: a session may get its phone, or another one, while its worker waits.
        phone = await sessions.current_phone(self._scripts, session.id)
        lease_ms = self._lease_ms
        match await outbox.claim(self._scripts, session.id, phone=phone, epoch=session.epoch, lease_ms=lease_ms):
            case Fenced(epoch):
                raise tokens.fenced(epoch)
            case outbox.Empty():
                return None
            case (place, claimed):
                message = await records.message(self._scripts, place.message)
                if message is None:
                    raise Broken(f"message {place.message} was claimed and does not exist")
                log.info("message.claimed", session=session.id, message=message.id, attempt=claimed.attempt)
                return worker_view(message, session.id, attempt=claimed.attempt, lease_ms=lease_ms)

    async def ack(self, session_id: str, message_id: str, *, whatsapp_id: str, at_ms: int | None) -> str:
        """Record that WhatsApp accepted a message; returns its status."""
        now_ms = await self._scripts.now_ms()
        outcome = await receipts.record(
            self._context, message_id, status="sent", whatsapp_id=whatsapp_id, at_ms=min(at_ms or now_ms, now_ms)
        )
        match outcome:
            case outbox.Became(status) | outbox.Already(status):
                log.info("message.acknowledged", session=session_id, message=message_id, status=status)
                return status
            case Unknown():
                raise _no_such_message(message_id)
            case outbox.Mismatch():
                raise Refused("OTHER_WHATSAPP_ID", f"{message_id} has another WhatsApp id.", 409)

    async def renew(self, session: Session, message_id: str) -> dict[str, int]:
        """Extend the lease of the worker that holds a message."""
        place = Place(message_id, session.phone, session.id)
        return self._renewed(
            message_id, await outbox.renew(self._scripts, place, epoch=session.epoch, lease_ms=self._lease_ms)
        )

    async def confirm_write(self, session: Session, message_id: str) -> dict[str, int]:
        """Extend the lease of a worker that is about to write, unless the message must not be written any more."""
        message = await records.message(self._scripts, message_id)
        if message is None:
            raise _no_such_message(message_id)
        place, permit = Place(message_id, message.phone, session.id), await self._write_permit(session, message)
        outcome = await outbox.confirm_write(self._scripts, place, permit, epoch=session.epoch, lease_ms=self._lease_ms)
        if isinstance(outcome, outbox.WriteRefused):
            log.warning("message.write_refused", session=session.id, message=message_id, reason=outcome.reason)
            text = f"{message_id} must not be written any more; drop it."
            raise Refused("WRITE_REFUSED", text, 409, now=outcome.status, reason=outcome.reason)
        return self._renewed(message_id, outcome)

    def _renewed(self, message_id: str, outcome: outbox.Renewed | Fenced | outbox.NotHolder) -> dict[str, int]:
        match outcome:
            case outbox.Renewed(until_ms):
                return {"leaseMs": self._lease_ms, "until": until_ms}
            case Fenced(epoch):
                raise tokens.fenced(epoch)
            case outbox.NotHolder(status):
                raise _not_holder(message_id, status)

    async def _write_permit(self, session: Session, message: Message) -> outbox.WritePermit:
        now_ms = await self._scripts.now_ms()
        pace = at_scale(self._settings, pace_of(self._settings, session, now_ms))
        hours = hours_bounds_ms(pace, now_ms, zone_of(self._settings, session))
        # The phone's hold counts also where the session has left that phone.
        fields = {*hold_fields(session), holds.of_phone(message.phone)}
        return outbox.WritePermit(message.to, *hours, sorted(fields))

    async def nack(self, session: Session, message_id: str, code: str, *, retryable: bool) -> dict[str, str]:
        """Record that an attempt failed, and decide what happens to the message."""
        message = await records.message(self._scripts, message_id)
        if message is None:
            raise _no_such_message(message_id)
        failure = retry_policy.failure_from(code, retryable=retryable)
        decided = retry_policy.verdict(
            message,
            failure,
            max_attempts=self._settings.max_attempts,
            jitter=_dice(),
            slowdowns=await outbox.slowdowns(self._scripts, message.phone),
        )
        decided = replace(decided, doubt=retry_policy.doubt_after(code, failure))
        if decided.backoff_ms is not None:
            decided = replace(decided, backoff_ms=int(self._settings.scaled(decided.backoff_ms)))
        place = Place(message_id, message.phone, session.id)
        day = day_of(self._settings, session, await self._scripts.now_ms())
        if failure is Failure.BANNED:  # first: once the message is back in its queue, a sibling could take it
            await ban_hold.place(self._context, session)
        match await outbox.nack(self._scripts, place, epoch=session.epoch, verdict=decided, day=day):
            case outbox.Became(status):
                log.warning("message.not_sent", session=session.id, message=message_id, code=code, status=status)
                await self._after_nack(session, message, failure)
                return {"status": status, "reason": failure.value}
            case Fenced(epoch):
                raise tokens.fenced(epoch)
            case outbox.NotHolder(status):
                raise _not_holder(message_id, status)

    async def _after_nack(self, session: Session, message: Message, failure: Failure) -> None:
        if not retry_policy.is_counted(failure):
            await outbox.add_uncounted_attempt(self._scripts, message.id)
        if failure is Failure.REACHOUT_LOCKED:
            await reachout_lock.refused_by_nack(self._context, session, message)


def worker_view(message: Message, session_id: str, *, attempt: int, lease_ms: int) -> ClaimedMessage:
    """Return a claimed message as its worker reads it."""
    part: dict[str, Any]
    match content.decode(json.loads(message.body)):
        case content.Text(text):
            part = {"kind": "text", "text": text}
        case content.Location(latitude, longitude, name, address):
            place = ClaimedLocation(latitude=latitude, longitude=longitude, name=name, address=address)
            part = {"kind": "location", "location": place}
        case content.Media(kind, mimetype, url, upload, filename, caption):
            # A worker reaches only its proxy and this server, so files come from here.
            source = f"/api/worker/sessions/{session_id}/media/{upload}" if upload else url
            media = ClaimedMedia(url=source, mimetype=mimetype, filename=filename, caption=caption)
            part = {"kind": kind.value, "media": media}
    return ClaimedMessage(
        message_id=message.id,
        whatsapp_id=message.whatsapp_id,
        to=message.to,
        attempt=attempt,
        lease_ms=lease_ms,
        **part,
    )


def _no_such_message(message_id: str) -> Refused:
    return Refused("NO_SUCH_MESSAGE", f"There is no message {message_id}.", 404)


def _not_holder(message_id: str, status: str) -> Refused:
    return Refused("NOT_HOLDER", f"This worker does not hold {message_id}; drop it.", 409, now=status)
