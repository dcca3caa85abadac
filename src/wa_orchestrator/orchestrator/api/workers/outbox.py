"""Routes of the worker outbox: claim by long poll, renew, ack, nack; results of commands; media files."""

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import Annotated, Any, Literal

from fastapi import Depends, Request, Response
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from wa_orchestrator.context import Context
from wa_orchestrator.domain import recipient
from wa_orchestrator.domain.messages import content, incoming
from wa_orchestrator.errors import Refused, Unavailable
from wa_orchestrator.messages import received_files, uploads
from wa_orchestrator.orchestrator.api.sessions.reads import SessionId
from wa_orchestrator.orchestrator.messages.outbox_service import OutboxService
from wa_orchestrator.orchestrator.messages.outbox_signal import OutboxSignals
from wa_orchestrator.orchestrator.workers import tokens
from wa_orchestrator.store.records import Message, Session
from wa_orchestrator.store.sessions import commands
from wa_orchestrator.web import problems, request_body
from wa_orchestrator.web.ids import CommandId, MessageId, UploadId
from wa_orchestrator.web.keyed_route import before_body, longest_body
from wa_orchestrator.web.models import ResponseModel
from wa_orchestrator.web.route_group import RouteGroup
from wa_orchestrator.web.stored_file import StoredFileResponse

BASE = "/api/worker/sessions/{session_id}"
MAX_WAIT_MS = 60_000
#: Results are short: codes, and names of files.
MAX_RESULT_BYTES = 256 * 1024
#: The facts of an upload that a worker gets.
_FACTS = frozenset({"seconds", "width", "height", "thumbnail", "waveform", "animated"})
#: The largest value of MEDIA_MAX_MB, which is what limits a file.
MAX_FILE_BYTES = 2048 * 1024 * 1024
#: Hundreds of workers wait without a connection to Redis; when all of them are woken, this many query it at once.
_MAX_CONCURRENT = 24
#: A waiting worker's outbox is checked now and then, should a signal be lost with its connection.
_RECHECK_S = 10.0
#: Text of a worker. Half of a surrogate pair, where JavaScript cut a text, becomes a question mark: Redis takes UTF-8.
_Text = Annotated[str, AfterValidator(lambda text: text.encode(errors="replace").decode())]


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

    whatsapp_id: Annotated[_Text, Field(alias="whatsappId")]
    timestamp: int | None = None


class NackBody(WorkerBody):
    """The message could not be sent."""

    code: _Text | int
    error: _Text = ""
    retryable: bool = True


class RenewBody(WorkerBody):
    """Whether the message is about to be written: then it is also checked that it may still leave."""

    before_write: Annotated[bool, Field(alias="beforeWrite")] = False


class MessagePath(WorkerBody):
    """The path of a message's routes."""

    message_id: MessageId


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
    view_once: bool | None = None
    seconds: int | None = None
    width: int | None = None
    height: int | None = None
    thumbnail: str | None = None
    waveform: str | None = None
    animated: bool | None = None


class ClaimedMessageView(ResponseModel):
    """A message, as the worker that claimed it reads it."""

    message_id: str
    whatsapp_id: str
    to: str
    attempt: int
    lease_ms: int
    kind: str
    text: str | None = None
    preview: content.LinkPreview | None = None
    location: content.Location | None = None
    media: ClaimedMedia | None = None
    contacts: list[incoming.Card] | None = None
    poll: incoming.Poll | None = None
    reply_to: dict[str, Any] | None = None
    mentions: list[incoming.Mention] | None = None


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
        for path, (endpoint, _) in self._frequent.items():
            self.post(path, response_model_exclude_none=True)(endpoint)
        self.post("/outbox/commands/{command_id}/result")(self.result)
        self.post("/outbox/commands/{command_id}/file")(self.file)
        self.get("/media/{upload_id}")(self.media)

    @property
    def _frequent(self) -> dict[str, tuple[Callable[..., Awaitable[Any]], type[WorkerBody]]]:
        """The requests that every message makes: path, endpoint, body."""
        return {
            "/outbox/claim": (self.claim, ClaimBody),
            "/outbox/{message_id}/ack": (self.ack, AckBody),
            "/outbox/{message_id}/nack": (self.nack, NackBody),
            "/outbox/{message_id}/renew": (self.renew, RenewBody),
        }

    def handlers_by_path(self) -> dict[str, Callable[[Request], Awaitable[Response]]]:
        """Return the handler of each frequent request, for an application that needs no description of it."""
        return {f"{BASE}{path}": self._handler(*of_path) for path, of_path in self._frequent.items()}

    def _handler(
        self, endpoint: Callable[..., Awaitable[Any]], model: type[WorkerBody]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return what FastAPI makes of an endpoint, without its search for dependencies: half of a claim's time."""

        async def handle(request: Request) -> Response:
            await self._check_token(request)
            most = self._settings.max_body_bytes
            with self._holding(request, most):
                body = _parsed(model, await _json(request, most), request.path_params)
            found = await endpoint(request, **request.path_params, body=body)
            if isinstance(found, Response):
                return found
            return Response(found.model_dump_json(by_alias=True, exclude_none=True), media_type="application/json")

        return handle

    async def _check_token(self, request: Request) -> None:
        """Check the token before the body is read, and count the request against the worker's rate."""
        session_id = str(request.path_params["session_id"])
        request.state.epoch = tokens.require_token(self._context, request, session_id)
        self._context.rates.require(f"worker {session_id}", self._settings.worker_rate_per_minute)

    def _holding(self, request: Request, most: int) -> AbstractContextManager[None]:
        """Count the body of a request whose token was checked, while it is read."""
        sender = tokens.sender(str(request.path_params["session_id"]), request.state.epoch)
        return self._context.worker_bodies.holding(sender, request_body.expected_bytes(request.scope, most))

    async def _authenticate(self, request: Request, session_id: str) -> Session:
        async with self._slots:
            return await tokens.require_current(self._context, request, session_id, request.state.epoch)

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
        return await self._view(*claimed, session.id) if claimed is not None else None

    async def _view(self, message: Message, attempt: int, session_id: str) -> dict[str, Any]:
        part: dict[str, Any]
        stored = json.loads(message.body)
        match content.decode(stored):
            case content.Text(text, preview):
                part = {"kind": "text", "text": text, "preview": preview}
            case content.Location() as location:
                part = {"kind": "location", "location": location}
            case content.ContactCards(cards):
                part = {"kind": "contacts", "contacts": list(cards)}
            case content.PollQuestion(question, poll):
                part = {"kind": "poll", "text": question, "poll": poll}
            case content.Media() as media:
                # A worker reaches only its proxy and this server, so files come from here.
                url = f"{BASE.format(session_id=session_id)}/media/{media.upload}" if media.upload else media.url
                facts = await self._facts(media.upload) if media.upload else {}
                part = {"kind": media.kind, "media": ClaimedMedia.of(media, url=url, **facts)}
        beside = content.decode_accompaniment(stored)
        part |= {"reply_to": beside.reply_to and incoming.encode(beside.reply_to), "mentions": beside.mentions or None}
        part |= {
            "message_id": message.id,
            "attempt": attempt,
            "lease_ms": self._outbox.lease_ms,
            "to": recipient.address(message.to),
        }
        return ClaimedMessageView.of(message, **part).model_dump(by_alias=True, exclude_none=True)

    async def _facts(self, upload_id: str) -> dict[str, Any]:
        """Return what is shown of a file before it is opened. Its message is already claimed, so this does not fail."""
        try:
            upload = await uploads.open(self._settings, upload_id)
        except Unavailable:  # the worker will not get the file either, and say so
            return {}
        return {name: value for name, value in upload.facts.items() if name in _FACTS} if upload else {}

    async def ack(self, _: Request, session_id: SessionId, message_id: MessageId, body: AckBody) -> OutboxStatus:
        # The epoch is not checked: an ack is true also when an older worker reports it.
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
        with self._holding(request, MAX_RESULT_BYTES):
            answer = await _command_result(request)
        if not await commands.put_result(self._scripts, session_id, command_id, answer):
            raise _unasked(command_id)
        return {"ok": True}

    @longest_body(MAX_FILE_BYTES)
    async def file(self, request: Request, session_id: SessionId, command_id: CommandId) -> dict[str, bool]:
        """Take the file that a command asked for. If there is no room for it, the waiting caller gets that error."""
        await self._authenticate(request, session_id)
        if not await commands.is_asked(self._scripts, session_id, command_id):
            raise _unasked(command_id)
        answer: dict[str, Any]
        try:
            size = await received_files.save(self._settings, command_id, request.stream())
            answer = {"ok": True, "file": command_id, "size": size}
        except (Refused, Unavailable) as refusal:
            answer = {"ok": False, "code": refusal.code}
        if not await commands.put_result(self._scripts, session_id, command_id, answer):
            await received_files.discard(self._settings, command_id)
            raise _unasked(command_id)
        return {"ok": bool(answer["ok"])}

    async def media(self, request: Request, session_id: SessionId, upload_id: UploadId) -> Response:
        session = await self._authenticate(request, session_id)
        upload = await uploads.open(self._settings, upload_id)
        if upload is None or not await self._outbox.may_read(session, upload_id):
            raise Refused("NO_SUCH_UPLOAD", "There is no such file, or it has expired.", 404)
        return StoredFileResponse(upload.size, upload.read, media_type=upload.mimetype, filename=upload.filename)


async def _no_dependency() -> None:
    """Carry a check for `before_body`."""


async def _disconnected(request: Request, signal: asyncio.Event) -> None:
    """Set the signal and return when the worker has hung up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    signal.set()


def _unasked(command_id: str) -> Refused:
    return Refused("NOT_ASKED", f"This session was not asked {command_id[:40]}, or nobody waits for it any more.", 403)


async def _json(request: Request, most: int) -> Any:
    raw = await request_body.read(request, most)
    try:
        return json.loads(raw or "{}")
    except (ValueError, RecursionError):
        raise problems.not_json() from None


def _parsed(model: type[WorkerBody], raw: Any, path: Mapping[str, str]) -> WorkerBody:
    """Return a worker's body, if that and the ids in the path are valid."""
    try:
        if "message_id" in path:
            MessagePath.model_validate(path)
        return model.model_validate(raw)
    except ValidationError as error:
        raise problems.invalid(error.errors()) from None


async def _command_result(request: Request) -> dict[str, Any]:
    """Return a worker's answer to a command: a JSON object."""
    raw = await request_body.read(request, MAX_RESULT_BYTES)
    try:
        answer = json.loads(raw)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise Refused("BAD_JSON", "The body must be a JSON object.")
    return answer
