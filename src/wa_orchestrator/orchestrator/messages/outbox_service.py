"""Serves one worker at a time at the outbox: what it may claim, and what follows from what it says."""

import asyncio
import json
import random
import time
from collections.abc import Collection
from dataclasses import replace
from typing import Annotated, Any, Literal

import structlog
from fastapi import Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from wa_orchestrator.context import Context
from wa_orchestrator.domain import content
from wa_orchestrator.domain.message_failures import Failure
from wa_orchestrator.errors import Broken, Refused
from wa_orchestrator.orchestrator.api import holds
from wa_orchestrator.orchestrator.messages import reachout_lock, receipts, retry_policy
from wa_orchestrator.orchestrator.messages.outbox_signal import Bells
from wa_orchestrator.orchestrator.workers import command_queue, tokens
from wa_orchestrator.session_pace import day_of
from wa_orchestrator.store import keys, outbox, records
from wa_orchestrator.store.message_keys import Place
from wa_orchestrator.store.records import Message, Session

MOST_WAIT_MS = 60_000
#: Hundreds of workers wait without a connection to Redis; when all of them are woken, so many ask at once.
_AT_ONCE = 24
#: A waiting worker looks for itself now and then, should a bell ever be lost with its connection.
_LOOK_AGAIN_S = 10.0

log = structlog.get_logger(__name__)
_dice = random.SystemRandom().random


class WorkerBody(BaseModel):
    """What a worker says. A newer worker may say more than this server knows, so unknown fields are left aside."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True, frozen=True)


class ClaimBody(WorkerBody):
    """How long to wait for something to do, and for what kind of things."""

    wait_ms: Annotated[int, Field(alias="waitMs", ge=0)] = 0
    accept: list[Literal["messages", "commands"]] = ["messages", "commands"]


class AckBody(WorkerBody):
    """WhatsApp has it."""

    whatsapp_id: Annotated[str, Field(alias="whatsappId")]
    timestamp: int | None = None


class NackBody(WorkerBody):
    """It could not be sent."""

    code: str | int
    error: str = ""
    retryable: bool = True


class Desk:
    """Serves the workers of all sessions."""

    def __init__(self, context: Context, bells: Bells) -> None:
        """Serve from this context's store; `bells` say when there is something to claim."""
        self._context = context
        self._scripts = context.scripts
        self._settings = context.settings
        self._bells = bells
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def worker(self, request: Request, session_id: str) -> Session:
        """The session for which a worker may speak; raises `Refused`."""
        async with self._room:
            return await tokens.authenticate_worker(self._context, request, session_id)

    async def claim(self, request: Request, session: Session, body: ClaimBody) -> Response:
        """Give something to do, as soon as there is something; 204 when the time is over."""
        ends_at = time.monotonic() + min(body.wait_ms, MOST_WAIT_MS) / 1000
        with self._bells.waiting(session.id) as bell:
            gone = asyncio.ensure_future(_disconnected(request))
            try:
                while True:
                    bell.clear()
                    async with self._room:
                        found = await self._take(session, body.accept)
                    if found is not None:
                        return JSONResponse(found)
                    left_s = ends_at - time.monotonic()
                    if left_s <= 0 or not await _wait(bell, gone, min(left_s, _LOOK_AGAIN_S)):
                        return Response(status_code=204)
            finally:
                gone.cancel()

    async def _take(self, session: Session, accept: Collection[str]) -> dict[str, Any] | None:
        if "commands" in accept:
            command = await command_queue.take(self._context, session.id)
            if command is not None:
                return {"command": command}
        return await self._message(session) if "messages" in accept else None

    async def _message(self, session: Session) -> dict[str, Any] | None:
        lease_ms = int(self._settings.scaled(self._settings.lease_ms))
        # Read at each look: a session may get its phone, or another one, while its worker waits here.
        phone = str(await self._scripts.redis.hget(keys.session(session.id), "phone") or "")
        claimed = await outbox.claim(self._scripts, session.id, phone=phone, epoch=session.epoch, lease_ms=lease_ms)
        match claimed:
            case outbox.Fenced(epoch):
                raise tokens.fenced(epoch)
            case outbox.Empty():
                return None
            case (place, attempt):
                message = await records.message(self._scripts, place.message)
                if message is None:
                    raise Broken(f"message {place.message} was claimed and is not there")
                log.info("message.claimed", session=session.id, message=message.id, attempt=attempt.attempt)
                return told(message, session.id, attempt=attempt.attempt, lease_ms=lease_ms)

    async def ack(self, session_id: str, message_id: str, body: AckBody) -> Response:
        """Note that WhatsApp has a message."""
        now_ms = await self._scripts.now_ms()
        at_ms = min(body.timestamp or now_ms, now_ms)
        outcome = await receipts.note(
            self._context, message_id, status="sent", whatsapp_id=body.whatsapp_id, at_ms=at_ms
        )
        match outcome:
            case outbox.Became(status) | outbox.Already(status):
                log.info("message.acknowledged", session=session_id, message=message_id, status=status)
                return JSONResponse({"status": status})
            case outbox.Unknown():
                raise Refused("NO_SUCH_MESSAGE", f"There is no message {message_id}.", 404)
            case outbox.Mismatch():
                raise Refused("OTHER_WHATSAPP_ID", f"{message_id} goes by another WhatsApp id.", 409)

    async def renew(self, session: Session, message_id: str) -> Response:
        """Extend the holder's lease."""
        lease_ms = int(self._settings.scaled(self._settings.lease_ms))
        place = Place(message_id, session.phone, session.id)
        renewed = await outbox.renew(self._scripts, place, epoch=session.epoch, lease_ms=lease_ms)
        match renewed:
            case outbox.Renewed(until_ms):
                return JSONResponse({"leaseMs": lease_ms, "until": until_ms})
            case outbox.Fenced(epoch):
                raise tokens.fenced(epoch)
            case outbox.NotHolder(status):
                raise _not_holder(message_id, status)

    async def nack(self, session: Session, message_id: str, body: NackBody) -> Response:
        """Take in that an attempt failed, and decide what becomes of the message."""
        message = await records.message(self._scripts, message_id)
        if message is None:
            raise Refused("NO_SUCH_MESSAGE", f"There is no message {message_id}.", 404)
        failure = retry_policy.failure_from(str(body.code), retryable=body.retryable)
        decided = retry_policy.verdict(message, failure, max_attempts=self._settings.max_attempts, jitter=_dice())
        if decided.backoff_ms is not None:
            decided = replace(decided, backoff_ms=int(self._settings.scaled(decided.backoff_ms)))
        place = Place(message_id, message.phone, session.id)
        day = day_of(self._settings, session, await self._scripts.now_ms())
        if failure is Failure.BANNED:  # first: once the message is back in its queue, a sibling could take it
            await holds.hold_after_ban(self._context, session)
        outcome = await outbox.nack(self._scripts, place, epoch=session.epoch, verdict=decided, day=day)
        match outcome:
            case outbox.Became(status):
                log.warning(
                    "message.not_sent", session=session.id, message=message_id, code=str(body.code), status=status
                )
                await self._after(session, message, failure)
                return JSONResponse({"status": status, "reason": failure.value})
            case outbox.Fenced(epoch):
                raise tokens.fenced(epoch)
            case outbox.NotHolder(status):
                raise _not_holder(message_id, status)

    async def _after(self, session: Session, message: Message, failure: Failure) -> None:
        if not retry_policy.is_counted(failure):
            await self._scripts.redis.hincrby(keys.message(message.id), "uncounted", 1)
        if failure is Failure.REACHOUT_LOCKED:
            await reachout_lock.refused_by_nack(self._context, session, message)


def told(message: Message, session_id: str, *, attempt: int, lease_ms: int) -> dict[str, Any]:
    """Write a claimed message as a worker reads it."""
    body = content.decode(json.loads(message.fields["body"]))
    fields: dict[str, Any] = {
        "messageId": message.id,
        "whatsappId": message.whatsapp_id,
        "to": message.to,
        "attempt": attempt,
        "leaseMs": lease_ms,
    }
    match body:
        case content.Text(text):
            return fields | {"kind": "text", "text": text}
        case content.Location(latitude, longitude, name, address):
            place = {"latitude": latitude, "longitude": longitude, "name": name, "address": address}
            return fields | {"kind": "location", "location": _set(place)}
        case content.Media(kind, mimetype, url, upload, filename, caption):
            # A worker reaches nothing but its proxy and this server, so files come from here.
            source = f"/api/worker/sessions/{session_id}/media/{upload}" if upload else url
            media = {"url": source, "mimetype": mimetype, "filename": filename, "caption": caption}
            return fields | {"kind": kind.value, "media": _set(media)}


def _set(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _not_holder(message_id: str, status: str) -> Refused:
    return Refused("NOT_HOLDER", f"You do not hold {message_id} (any more). Leave it alone.", 409, now=status)


async def _disconnected(request: Request) -> None:
    """Return when the worker has hung up: a message must not be claimed for nobody."""
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return


async def _wait(bell: asyncio.Event, gone: "asyncio.Future[Any]", seconds: float) -> bool:
    """Wait for the bell or for the time to pass; False when the worker has hung up."""
    rung: asyncio.Future[Any] = asyncio.ensure_future(bell.wait())
    try:
        await asyncio.wait({rung, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        rung.cancel()
    return not gone.done()
