"""Route for events of workers: signed, recent, of the current epoch, and each handled once."""

import base64
import hmac
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Literal, TypeGuard

import structlog
from fastapi import Request, Response
from pydantic import Field

from wa_orchestrator.context import Context
from wa_orchestrator.domain.workers import event_parser
from wa_orchestrator.domain.workers.worker_events import Payload, WorkerEvent
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.workers import event_refusals, tokens
from wa_orchestrator.store import records
from wa_orchestrator.store.events import worker_events
from wa_orchestrator.store.events.worker_events import EventDelivery
from wa_orchestrator.store.records import Session
from wa_orchestrator.web import request_body
from wa_orchestrator.web.auth import count_stranger
from wa_orchestrator.web.ids import SESSION_ID
from wa_orchestrator.web.keyed_route import longest_body
from wa_orchestrator.web.models import ResponseModel
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

#: Where events are received, with the name of each operation.
PATHS: Final = {"/webhook": "receive_worker_event", "/api/webhook": "receive_worker_event_alias"}
#: How old, or how far ahead, a signature may be.
WINDOW_S = 300
#: Ids are kept for longer than any signature with them is valid.
_KEPT_MS = 3 * WINDOW_S * 1000
#: Seconds since 1970; more digits would overflow the comparison.
_STAMP = re.compile(r"[0-9]{1,12}")
MAX_BYTES = 4 * 1024 * 1024
#: Bytes of events that a worker may report in a minute, all at once if need be: a backlog of 20,000 messages. What it
#: reports is kept for days, and one that was taken over must not fill Redis for the whole fleet.
MAX_BYTES_PER_MINUTE: Final = 16 * 1024 * 1024
_OTHER_WORKER = "BAD_SIGNATURE", "The signature does not match the body and this worker."
_EPOCH_MISSING = (
    "EPOCH_MISSING",
    "The event has no epoch and is not signed by the session's current worker. Send EPOCH as `epoch`.",
)

log = structlog.get_logger(__name__)

Rest = Callable[[], Awaitable[None]]
Handler = Callable[[Context, Session, WorkerEvent[Any]], Awaitable[None]]
"""Carries out an event, step by step; it may be repeated after each of them."""


@dataclass(frozen=True, slots=True)
class OneStep:
    """How a frequent event is handled: by one script that also checks its epoch and notes it as received.

    `handle` may return what is left to do; then the event is noted after that.
    """

    handle: Callable[[Context, EventDelivery, WorkerEvent[Any]], Awaitable[Rest | None]]


#: The handler of each payload class; events without one are accepted and ignored.
Handlers = dict[type[Payload], Handler | OneStep]


class WorkerEventBody(ResponseModel):
    """An event of a worker; `docs/sessions.md` lists the types and their data."""

    session_id: str = Field(examples=["worker_1"])
    type: str = Field(examples=["CONNECTED"])
    timestamp: int = Field(description="Milliseconds since 1970.", examples=[1750000000000])
    epoch: int | None = Field(
        None, description="Which worker of the session it is; if missing, the signature shows it.", examples=[3]
    )
    sequence: int = Field(0, description="Counts the events of a worker.", examples=[17])
    data: dict[str, Any] = Field(examples=[{"phoneNumber": "972501234567", "jid": "972501234567:5@s.whatsapp.net"}])


#: The body is read by hand, because its signature covers the bytes.
_BODY: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": WorkerEventBody.model_json_schema()}}}
}


class AcceptedEvent(ResponseModel):
    """The event was accepted."""

    accepted: Literal[True] = True


#: Rendered once: it is the answer to every event.
_ACCEPTED: Final = AcceptedEvent().model_dump_json(by_alias=True)


class WorkerEventRoutes(RouteGroup):
    """Routes `/webhook` and `/api/webhook`, for workers: verify events and pass them to their handlers."""

    def __init__(self, context: Context, handlers: Mapping[type[Payload], Handler | OneStep]) -> None:
        super().__init__(context, "", "workers")
        self._handlers = handlers
        described = responses(
            BAD_EVENT=400, BAD_SIGNATURE=401, STALE_SIGNATURE=401, EPOCH_MISSING=401, WORKER_TOKEN_WRONG=401,
            DUPLICATE=409, FENCED=409, STILL_WORKING=503, BODIES_FULL=503,
        )  # fmt: skip
        for path, name in PATHS.items():
            self.post(path, name=name, response_model=AcceptedEvent, responses=described, openapi_extra=_BODY)(
                self.receive_worker_event
            )

    def handlers_by_path(self) -> dict[str, Callable[[Request], Awaitable[Response]]]:
        """Return the handler of each path, for an application that needs no description of it."""
        return dict.fromkeys(PATHS, self.receive_worker_event)

    @longest_body(MAX_BYTES)
    async def receive_worker_event(self, request: Request) -> Response:
        """Report an event of a worker, signed as in Standard Webhooks.

        A worker repeats an event until it gets 2xx or 409; `DUPLICATE` means that it was accepted before, `FENCED`
        that a newer worker runs the session. With the worker's token as a bearer token, its long events wait for no
        other worker's.
        """
        sender = self._sender(request)
        amount = request_body.expected_bytes(request.scope, self._longest(request))
        with self._context.worker_bodies.holding(sender, amount):
            return await self._receive(request)

    def _sender(self, request: Request) -> str:
        """Return whose body it would be, by its head alone. Workers that send no token share what one may send.

        They do so on each port apart: strangers who reach the one must not take the room of the other.
        """
        with self._counting_strangers(request):
            _check_headers(request.headers)
        if "authorization" not in request.headers:
            return "workers' port" if _is_for_workers(request) else "main port"
        return tokens.sender(*tokens.require_genuine(self._context, request))

    async def _receive(self, request: Request) -> Response:
        with self._counting_strangers(request):
            event, event_id, body = await self._verified(request)
        self._context.rates.require(f"worker {event.session_id}", self._settings.worker_rate_per_minute)
        self._context.rates.require(f"worker bytes {event.session_id}", MAX_BYTES_PER_MINUTE, amount=len(body))
        delivery = EventDelivery(event.session_id, event.epoch or 0, event_id, body, _KEPT_MS)
        handler = self._handlers.get(type(event.payload), _IGNORE)
        if isinstance(handler, OneStep):
            rest = await handler.handle(self._context, delivery, event)
            if rest is not None:
                await self._finish(delivery, rest)
        else:
            await self._handle(delivery, event, handler)
        log.debug("worker_event.received", session=event.session_id, type=event.type, epoch=event.epoch)
        return Response(_ACCEPTED, media_type="application/json")

    @contextmanager
    def _counting_strangers(self, request: Request) -> Iterator[None]:
        try:
            yield
        except Refused as refusal:
            if refusal.status == HTTPStatus.UNAUTHORIZED:
                count_stranger(self._context, request)
            raise

    async def _verified(self, request: Request) -> tuple[WorkerEvent[Payload], str, bytes]:
        """Return a request's event, its id and its body, if a worker has signed it."""
        body = await request_body.read(request, self._longest(request))
        raw = _json(body)
        stated = raw.get("epoch") is not None
        raw = raw if stated else raw | {"epoch": await self._current_epoch(raw)}
        event_id = self._verify(raw, body, request.headers, _OTHER_WORKER if stated else _EPOCH_MISSING)
        return event_parser.parse(raw), event_id, body

    def _longest(self, request: Request) -> int:
        """Return the longest event: where strangers come, a body that nobody has vouched for yet must be short."""
        return MAX_BYTES if _is_for_workers(request) else self._settings.max_body_bytes

    async def _current_epoch(self, raw: Mapping[str, Any]) -> int:
        """Return the epoch of the session's worker: only that worker has the secret that goes with it."""
        session_id = raw.get("sessionId")
        session = await records.session(self._scripts, session_id) if _is_id(session_id) else None
        return session.epoch if session else 0

    def _verify(
        self, raw: Mapping[str, Any], body: bytes, headers: Mapping[str, str], mismatch: tuple[str, str]
    ) -> str:
        """Check the signature with the secret of the worker that the event names; returns the event's id."""
        session_id, epoch = raw.get("sessionId"), raw.get("epoch")
        if not _is_id(session_id) or not isinstance(epoch, int):
            raise Refused("BAD_EVENT", "sessionId must be the id of a session, and epoch a number.")
        minted = tokens.accepted(self._settings, session_id, epoch)
        if not any(_is_signed(each.webhook_secret, body, headers) for each in minted):
            raise Refused(*mismatch, 401)
        return headers["webhook-id"]

    async def _handle(self, delivery: EventDelivery, event: WorkerEvent[Payload], handler: Handler) -> None:
        session = await records.session(self._scripts, delivery.session)
        if session is None or delivery.epoch != session.epoch:
            raise tokens.fenced(session.epoch if session else 0)
        if refusal := await worker_events.begin(self._scripts, delivery):
            raise event_refusals.error(refusal)
        await self._finish(delivery, lambda: handler(self._context, session, event))

    async def _finish(self, delivery: EventDelivery, rest: Rest) -> None:
        """Do what is left of an event that was begun, and note it as received; if that fails, it may come again."""
        try:
            await rest()
        except BaseException:
            await worker_events.release(self._scripts, delivery)
            raise
        await worker_events.accept(self._scripts, delivery)


async def _ignore(context: Context, delivery: EventDelivery, _: WorkerEvent[Any]) -> None:
    event_refusals.require_accepted(await worker_events.accept_ignored(context.scripts, delivery))


_IGNORE: Final = OneStep(_ignore)


def _is_for_workers(request: Request) -> bool:
    return bool(getattr(request.app.state, "is_for_workers", False))


def _check_headers(headers: Mapping[str, str]) -> None:
    """Refuse a request that cannot have a valid signature, before its body is read."""
    stamp = headers.get("webhook-timestamp", "")
    if not headers.get("webhook-id") or not _STAMP.fullmatch(stamp) or not headers.get("webhook-signature"):
        raise Refused(
            "BAD_SIGNATURE", "The headers webhook-id, webhook-timestamp and webhook-signature are required.", 401
        )
    if abs(time.time() - int(stamp)) > WINDOW_S:
        raise Refused("STALE_SIGNATURE", "The signature is more than 5 minutes off. Compare the two clocks.", 401)


def _is_id(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and SESSION_ID.fullmatch(value) is not None


def _is_signed(secret: str, body: bytes, headers: Mapping[str, str]) -> bool:
    """Whether a signature of a request (`v1,<base64>`; several by spaces) is made with this secret: Standard Webhooks.

    Not by its library: that parses dates and the whole body once more, which took a tenth of an event's time.
    """
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = b"v1," + base64.b64encode(hmac.digest(key, signed, "sha256"))
    return any(hmac.compare_digest(expected, each.encode()) for each in headers["webhook-signature"].split(" "))


def _json(body: bytes) -> dict[str, Any]:
    """Parse the body of an event. Halves of surrogate pairs, as a text that was cut in JavaScript may have them, become
    question marks: no database takes them, and the message that they are in must not be lost.
    """
    try:
        raw = json.loads(body)
        if b"\\ud" in body or b"\\uD" in body:
            raw = json.loads(json.dumps(raw, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raw = None
    if not isinstance(raw, dict):
        raise Refused("BAD_EVENT", "The body must be a JSON object.")
    return raw
