"""Worker outbox: claim, renew, ack, nack."""

import json
import random
from dataclasses import replace

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.messages import content
from wa_orchestrator.domain.messages.failures import Failure
from wa_orchestrator.domain.pacing.hours import hours_bounds_ms
from wa_orchestrator.errors import Broken, Refused
from wa_orchestrator.messages.session_pace import at_scale, day_of, hold_fields, pace_of, zone_of
from wa_orchestrator.orchestrator.backups.journal_file import JournalFile
from wa_orchestrator.orchestrator.messages import ban_hold, new_chat_cap, reachout_lock, receipts, retry_policy
from wa_orchestrator.orchestrator.workers import tokens
from wa_orchestrator.store import records
from wa_orchestrator.store.messages import contacts, holds, outbox, phone_queues
from wa_orchestrator.store.messages.message_keys import Place
from wa_orchestrator.store.outcomes import Fenced, Unknown
from wa_orchestrator.store.records import Message, Session

log = structlog.get_logger(__name__)
_dice = random.SystemRandom().random
#: Why all sending is on hold while the journal cannot be written, and for how long after each attempt.
JOURNAL_UNWRITABLE = "JOURNAL_UNWRITABLE"
UNWRITABLE_MS = 30_000


class OutboxService:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._scripts = context.scripts
        self._settings = context.settings
        self._journal = JournalFile(context.settings)

    @property
    def lease_ms(self) -> int:
        """How long a worker holds a message that it claimed or renewed."""
        return int(self._settings.scaled(self._settings.lease_ms))

    async def claim(self, session: Session, process: str = "") -> tuple[Message, int] | None:
        """Give this process of the session's worker its next message and the attempt's number; None: there is none."""
        # Read each time: a session may get its phone, or another one, while its worker waits.
        phone, first = await outbox.phone_and_first(self._scripts, session.id)
        match await outbox.claim(
            self._scripts,
            session.id,
            phone=phone,
            epoch=session.epoch,
            lease_ms=self.lease_ms,
            process=process,
            first=first,
        ):
            case Fenced(epoch):
                raise tokens.fenced(epoch)
            case outbox.Empty():
                return None
            case (place, claimed):
                message = await records.message(self._scripts, place.message)
                if message is None:
                    raise Broken(f"message {place.message} was claimed and does not exist")
                log.info("message.claimed", session=session.id, message=message.id, attempt=claimed.attempt)
                return message, claimed.attempt

    async def ack(self, session_id: str, message_id: str, *, whatsapp_id: str, at_ms: int | None) -> str:
        """Record that WhatsApp accepted a message; returns its status."""
        receipt = outbox.MessageReport(session_id, "sent", whatsapp_id, at_ms or 0)
        match await receipts.record(self._context, message_id, receipt):
            case outbox.Became(status) | outbox.Already(status):
                log.info("message.acknowledged", session=session_id, message=message_id, status=status)
                return status
            case Unknown():
                raise _no_such_message(message_id)
            case outbox.Mismatch():
                raise Refused("OTHER_WHATSAPP_ID", f"{message_id} has another WhatsApp id.", 409)

    async def renew(self, session: Session, message_id: str) -> int:
        """Extend the lease of the worker that holds a message; returns its end in ms."""
        place = Place(message_id, session.phone, session.id)
        outcome = await outbox.renew(self._scripts, place, epoch=session.epoch, lease_ms=self.lease_ms)
        return _lease_end(session, message_id, outcome)

    async def may_read(self, session: Session, upload_id: str) -> bool:
        """Whether a file belongs to the message that this worker holds: others are none of its business."""
        held = await records.message(self._scripts, await phone_queues.in_flight(self._scripts, session.phone))
        if held is None or (held.status, held.session, held.claim_epoch) != ("sending", session.id, session.epoch):
            return False
        wanted = content.decode(json.loads(held.body)) if held.body else None
        return isinstance(wanted, content.Media) and wanted.upload == upload_id

    async def confirm_write(self, session: Session, message_id: str) -> int:
        """Extend the lease of a worker that is about to write, unless the message must not be written any more."""
        message = await self._message(message_id)
        place = Place(message_id, message.phone, session.id)
        now_ms = await self._scripts.now_ms()
        await self._note_write(message_id, now_ms)
        # A person known by a phone and a LID may have opted out under the other name.
        other_name = await contacts.other_name(self._scripts, message.to)
        permit = self._write_permit(session, message, other_name, now_ms)
        outcome = await outbox.confirm_write(self._scripts, place, permit, epoch=session.epoch, lease_ms=self.lease_ms)
        if isinstance(outcome, outbox.WriteRefused):
            log.warning("message.write_refused", session=session.id, message=message_id, reason=outcome.reason)
            text = f"{message_id} must not be written any more; drop it."
            raise Refused("WRITE_REFUSED", text, 409, now=outcome.status, reason=outcome.reason)
        return _lease_end(session, message_id, outcome)

    async def _note_write(self, message_id: str, now_ms: int) -> None:
        """Note on disk that a message is about to be written: after the loss of Redis a restore must know it.

        While that cannot be done, all sending is on hold; the script that follows then refuses this write too.
        """
        try:
            await self._journal.note_write(message_id, now_ms)
        except OSError as error:
            log.error("journal.unwritable", message=message_id, error=str(error))
            hold = holds.Hold("all", now_ms + UNWRITABLE_MS, JOURNAL_UNWRITABLE, holds.SERVER)
            await holds.put(self._scripts, hold)

    async def _message(self, message_id: str) -> Message:
        message = await records.message(self._scripts, message_id)
        if message is None:
            raise _no_such_message(message_id)
        return message

    def _write_permit(self, session: Session, message: Message, other_name: str, now_ms: int) -> outbox.WritePermit:
        pace = at_scale(self._settings, pace_of(self._settings, session, now_ms))
        hours = hours_bounds_ms(pace, now_ms, zone_of(self._settings, session))
        # The phone's hold counts also where the session has left that phone.
        fields = {*hold_fields(session), holds.of_phone(message.phone)}
        return outbox.WritePermit(other_name, *hours, sorted(fields))

    async def nack(self, session: Session, message_id: str, code: str, *, retryable: bool) -> tuple[str, Failure]:
        """Record that an attempt failed, and decide what happens to the message; returns its status and the reason."""
        message = await self._message(message_id)
        failure = retry_policy.failure_from(code, retryable=retryable)
        slowdowns = await outbox.slowdowns(self._scripts, message.phone)
        decided = retry_policy.verdict(
            message, failure, max_attempts=self._settings.max_attempts, jitter=_dice(), slowdowns=slowdowns
        )
        decided = replace(
            decided, doubt=retry_policy.doubt_after(code, failure), answer=retry_policy.spelled_code(code)
        )
        if decided.backoff_ms is not None:
            decided = replace(decided, backoff_ms=int(self._settings.scaled(decided.backoff_ms)))
        place = Place(message_id, message.phone, session.id)
        day = day_of(self._settings, session, await self._scripts.now_ms())
        if message.session == session.id:
            await self._pause(session, message, failure)
        match await outbox.nack(self._scripts, place, epoch=session.epoch, verdict=decided, day=day):
            case outbox.Became(status):
                log.warning("message.not_sent", session=session.id, message=message_id, code=code, status=status)
                if failure.remedy in retry_policy.UNCOUNTED:
                    await outbox.add_uncounted_attempt(self._scripts, message.id)
                if failure is Failure.REACHOUT_LOCKED:
                    await reachout_lock.refused_by_nack(self._context, session, message)
                return status, failure
            case Fenced(epoch):
                raise tokens.fenced(epoch)
            case outbox.NotHolder(status):
                raise _not_holder(message_id, status)
            case outbox.Stranger():
                raise receipts.not_yours(message_id, session.id)

    async def _pause(self, session: Session, message: Message, failure: Failure) -> None:
        """Note why the phone, or its messages to new contacts, must wait.

        Before its nack: once the message waits again, it could be taken.
        """
        if failure is Failure.BANNED:
            await ban_hold.place(self._context, session)
        elif failure is Failure.NEW_CHAT_CAP:
            await new_chat_cap.refused_by_nack(self._context, session, message)


def _lease_end(
    session: Session, message_id: str, outcome: outbox.Renewed | Fenced | outbox.NotHolder | outbox.Stranger
) -> int:
    match outcome:
        case outbox.Renewed(until_ms):
            return until_ms
        case Fenced(epoch):
            raise tokens.fenced(epoch)
        case outbox.NotHolder(status):
            raise _not_holder(message_id, status)
        case outbox.Stranger():
            raise receipts.not_yours(message_id, session.id)


def _no_such_message(message_id: str) -> Refused:
    return Refused("NO_SUCH_MESSAGE", f"There is no message {message_id}.", 404)


def _not_holder(message_id: str, status: str) -> Refused:
    return Refused("NOT_HOLDER", f"This worker does not hold {message_id}; drop it.", 409, now=status)
