"""Routes of the worker outbox: claim by long poll, renew, ack, nack; results of commands; media files."""

import asyncio
import base64
import contextlib
import json
import time
from typing import Annotated, Any, Literal

from fastapi import Depends, Request, Response
from fastapi.responses import FileResponse, JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from wa_orchestrator.context import Context
from wa_orchestrator.domain import content
from wa_orchestrator.errors import Refused
from wa_orchestrator.messages import uploads
from wa_orchestrator.orchestrator.api.session_reads import SessionId
from wa_orchestrator.orchestrator.messages.outbox_service import OutboxService
from wa_orchestrator.orchestrator.messages.outbox_signal import OutboxSignals
from wa_orchestrator.orchestrator.workers import tokens
from wa_orchestrator.store.records import Message, Session
from wa_orchestrator.store.sessions import commands
from wa_orchestrator.web import request_body
from wa_orchestrator.web.ids import CommandId, MessageId, UploadId
from wa_orchestrator.web.keyed_route import before_body, longest_body
from wa_orchestrator.web.models import ResponseModel
from wa_orchestrator.web.route_group import RouteGroup

FENCED = "FENCED"
BASE = "/api/worker/sessions/{session_id}"
MAX_WAIT_MS = 60_000
#: WhatsApp's own limit for pictures and videos; larger files are documents, which nobody fetches by a command.
MAX_RESULT_BYTES = 16 * 1024 * 1024
#: Hundreds of workers wait without a connection to Redis; when all of them are woken, this many query it at once.
_MAX_CONCURRENT = 24
#: A waiting worker's outbox is checked now and then, should a signal be lost with its connection.
_RECHECK_S = 10.0


class WorkerBody(BaseModel):
    """Body of a worker's request. A newer worker may send fields that this server does not know; they are ignored."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True, frozen=True)


class ClaimBody(WorkerBody):
    """How long to wait, and for what. `process` tells a worker that asks again from the next one."""

    wait_ms: Annotated[int, Field(alias="waitMs", ge=0)] = 0
    accept: list[Literal["messages", "commands"]] = ["messages", "commands"]
    process: Annotated[str, Field(max_length=64)] = ""


class AckBody(WorkerBody):
    """WhatsApp accepted the message."""

    whatsapp_id: Annotated[str, Field(alias="whatsappId")]
    timestamp: int | None = None


class NackBody(WorkerBody):
    """The message could not be sent."""

    code: str | int
    error: str = ""
    retryable: bool = True


class RenewBody(WorkerBody):
    """Whether the message is about to be written: then it is also checked that it may still leave."""

    before_write: Annotated[bool, Field(alias="beforeWrite")] = False


class OutboxStatus(ResponseModel):
    """The message's status after an ack or a nack."""

    status: str
    reason: str | None = None


class ClaimedMedia(ResponseModel):
    """A file to send."""

    url: str | None
    mimetype: str
    filename: str | None
    caption: str | None


class ClaimedMessageView(ResponseModel):
    """A message, as the worker that claimed it reads it."""

    message_id: str
    whatsapp_id: str
    to: str
    attempt: int
    lease_ms: int
    kind: str
    text: str | None = None
    location: content.Location | None = None
    media: ClaimedMedia | None = None


class RenewedLease(ResponseModel):
    """The lease of a claimed message."""

    lease_ms: int
    until: int


class WorkerOutboxRoutes(RouteGroup):
    def __init__(self, context: Context, signals: OutboxSignals | None = None) -> None:
        super().__init__(context, BASE, "workers")
        self.include_in_schema = False
        self.dependencies.append(Depends(before_body(self._check_token, _no_dependency)))
        self._outbox = OutboxService(context)
        self._signals = signals or OutboxSignals(context.scripts)
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT)
        self.post("/outbox/claim")(self.claim)
        self.post("/outbox/{message_id}/ack", response_model_exclude_none=True)(self.ack)
        self.post("/outbox/{message_id}/nack")(self.nack)
        self.post("/outbox/{message_id}/renew")(self.renew)
        self.post("/outbox/commands/{command_id}/result")(self.result)
        self.get("/media/{upload_id}")(self.media)

    async def _check_token(self, request: Request) -> None:
        """Check the token before the body is read, and count the request against the worker's rate."""
        session_id = str(request.path_params["session_id"])
        tokens.require_token(self._context, request, session_id)
        self._context.rates.require(f"worker {session_id}", self._settings.worker_rate_per_minute)

    async def _authenticate(self, request: Request, session_id: str) -> Session:
        async with self._slots:
            return await tokens.authenticate_worker(self._context, request, session_id)

    async def claim(self, request: Request, session_id: SessionId, body: ClaimBody | None = None) -> Response:
        session, wanted = await self._authenticate(request, session_id), body or ClaimBody()
        ends_at = time.monotonic() + min(wanted.wait_ms, MAX_WAIT_MS) / 1000
        with self._signals.subscribe(session.id) as signal:
            disconnect = asyncio.ensure_future(_disconnected(request, signal))
            try:
                while not disconnect.done():  # no message must be claimed for a worker that has hung up
                    signal.clear()
                    async with self._slots:
                        found = await self._next(session, wanted)
                    if found is not None:
                        return JSONResponse(found)
                    left_s = ends_at - time.monotonic()
                    if left_s <= 0 or self._signals.is_closed:
                        break
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(min(left_s, _RECHECK_S)):
                            await signal.wait()
                return Response(status_code=204)
            finally:
                disconnect.cancel()

    async def _next(self, session: Session, wanted: ClaimBody) -> dict[str, Any] | None:
        command = await commands.take(self._scripts, session.id) if "commands" in wanted.accept else None
        if command is not None:
            return {"command": command}
        claimed = await self._outbox.claim(session, wanted.process) if "messages" in wanted.accept else None
        return _view(*claimed, session.id, self._outbox.lease_ms) if claimed is not None else None

    async def ack(self, request: Request, session_id: SessionId, message_id: MessageId, body: AckBody) -> OutboxStatus:
        try:
            await self._authenticate(request, session_id)
        except Refused as refusal:
            if refusal.code != FENCED:  # an ack is true also when an older worker reports it
                raise
        acked = await self._outbox.ack(session_id, message_id, whatsapp_id=body.whatsapp_id, at_ms=body.timestamp)
        return OutboxStatus(status=acked)

    async def nack(
        self, request: Request, session_id: SessionId, message_id: MessageId, body: NackBody
    ) -> OutboxStatus:
        session = await self._authenticate(request, session_id)
        status, reason = await self._outbox.nack(session, message_id, str(body.code), retryable=body.retryable)
        return OutboxStatus(status=status, reason=reason)

    async def renew(
        self, request: Request, session_id: SessionId, message_id: MessageId, body: RenewBody | None = None
    ) -> RenewedLease:
        session = await self._authenticate(request, session_id)
        ask = self._outbox.confirm_write if body and body.before_write else self._outbox.renew
        return RenewedLease(until=await ask(session, message_id), lease_ms=self._outbox.lease_ms)

    @longest_body(MAX_RESULT_BYTES)
    async def result(self, request: Request, session_id: SessionId, command_id: CommandId) -> dict[str, bool]:
        await self._authenticate(request, session_id)
        if not await commands.is_asked(self._scripts, session_id, command_id):
            raise _unasked(command_id)  # before its body is read
        answer = await _command_result(request)
        if not await commands.put_result(self._scripts, session_id, command_id, answer):
            raise _unasked(command_id)
        return {"ok": True}

    async def media(self, request: Request, session_id: SessionId, upload_id: UploadId) -> Response:
        await self._authenticate(request, session_id)
        upload = uploads.open(self._settings, upload_id)
        if upload is None:
            raise Refused("NO_SUCH_UPLOAD", "There is no such file, or it has expired.", 404)
        return FileResponse(upload.path, media_type=upload.mimetype, filename=upload.filename or None)


async def _no_dependency() -> None:
    """Carry a check for `before_body`."""


def _view(message: Message, attempt: int, session_id: str, lease_ms: int) -> dict[str, Any]:
    part: dict[str, Any]
    match content.decode(json.loads(message.body)):
        case content.Text(text):
            part = {"kind": "text", "text": text}
        case content.Location() as location:
            part = {"kind": "location", "location": location}
        case content.Media() as media:
            # A worker reaches only its proxy and this server, so files come from here.
            url = f"{BASE.format(session_id=session_id)}/media/{media.upload}" if media.upload else media.url
            part = {"kind": media.kind, "media": ClaimedMedia.of(media, url=url)}
    part |= {"message_id": message.id, "attempt": attempt, "lease_ms": lease_ms}
    return ClaimedMessageView.of(message, **part).model_dump(by_alias=True, exclude_none=True)


async def _disconnected(request: Request, signal: asyncio.Event) -> None:
    """Set the signal and return when the worker has hung up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    signal.set()


def _unasked(command_id: str) -> Refused:
    return Refused("NOT_ASKED", f"This session was not asked {command_id[:40]}, or nobody waits for it any more.", 403)


async def _command_result(request: Request) -> dict[str, Any]:
    """Return a worker's answer to a command: a JSON object, or the bytes of a file."""
    raw = await request_body.read(request, MAX_RESULT_BYTES)
    mimetype = request.headers.get("content-type", "application/octet-stream")
    if mimetype.partition(";")[0].strip() != "application/json":
        return {"base64": base64.b64encode(raw).decode(), "mimetype": mimetype}
    try:
        answer = json.loads(raw)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise Refused("BAD_JSON", "The body must be a JSON object, or a file with its own Content-Type.")
    return answer
