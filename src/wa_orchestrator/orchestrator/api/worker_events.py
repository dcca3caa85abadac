"""Takes in what workers report: genuine, fresh, of the present epoch, and each event once."""

import hashlib
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

import structlog
from fastapi import APIRouter, Request
from pydantic import Field
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from wa_orchestrator.context import Context
from wa_orchestrator.domain import worker_events
from wa_orchestrator.domain.worker_events import Payload, WorkerEvent
from wa_orchestrator.errors import Refused, Unavailable
from wa_orchestrator.orchestrator.workers import tokens
from wa_orchestrator.store import keys, records
from wa_orchestrator.store.records import Session
from wa_orchestrator.web.models import ResponseModel
from wa_orchestrator.web.problems import responses

#: How old, or how far ahead, a signature may be.
WINDOW_S = 300
#: Ids are remembered for longer than any signature with them is valid.
_REMEMBERED_MS = 3 * WINDOW_S * 1000
#: For how long an event that is being taken in keeps its repetitions waiting.
_WORKING_MS = 30_000
_WORKING = "working"
#: Seconds since 1970. More digits would be a number that nothing can be compared with.
_STAMP = re.compile(r"[0-9]{1,12}")
MOST_BYTES = 4 * 1024 * 1024

log = structlog.get_logger(__name__)

Handler = Callable[[Context, Session, WorkerEvent], Awaitable[None]]
#: What is done with each kind of payload; kinds without a handler are accepted and left aside.
Handlers = dict[type[Payload], Handler]


class WorkerEventBody(ResponseModel):
    """An event of a worker; `docs/runner.md` lists the types and their data."""

    session_id: str = Field(examples=["worker_1"])
    type: str = Field(examples=["CONNECTED"])
    timestamp: int = Field(description="Milliseconds since 1970.", examples=[1750000000000])
    epoch: int = Field(description="Which worker of the session it is.", examples=[3])
    sequence: int = Field(0, description="Counts the events of a worker.", examples=[17])
    data: dict[str, Any] = Field(examples=[{"phoneNumber": "972501234567", "jid": "972501234567:5@s.whatsapp.net"}])


#: The body is read by hand, because its signature covers the bytes.
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": WorkerEventBody.model_json_schema()}},
    }
}


class AcceptedEvent(ResponseModel):
    """The event was accepted."""

    accepted: Literal[True] = True


def router(context: Context, handlers: Mapping[type[Payload], Handler]) -> APIRouter:
    """Offer `/webhook` and `/api/webhook` to workers."""
    routes = APIRouter(tags=["workers"])
    intake = Intake(context, handlers)

    async def receive_worker_event(request: Request) -> AcceptedEvent:
        """Report an event of a worker, signed as in Standard Webhooks.

        A worker repeats an event until it gets 2xx or 409; `DUPLICATE` means that it was accepted before, `FENCED`
        that a newer worker runs the session.
        """
        await intake.take(await request.body(), request.headers)
        return AcceptedEvent()

    described = responses(
        BAD_EVENT=400, BAD_SIGNATURE=401, STALE_SIGNATURE=401, DUPLICATE=409, FENCED=409, STILL_WORKING=503
    )
    routes.post("/webhook", responses=described, openapi_extra=_BODY)(receive_worker_event)
    routes.post("/api/webhook", name="receive_worker_event_alias", responses=described, openapi_extra=_BODY)(
        receive_worker_event
    )
    return routes


class Intake:
    """Lets an event in once it has proven itself, and hands it to its handler."""

    def __init__(self, context: Context, handlers: Mapping[type[Payload], Handler]) -> None:
        self._context = context
        self._handlers = handlers

    async def take(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Take in one event, or raise `Refused` and change nothing."""
        raw = _json(body)
        webhook_id = self._genuine(raw, body, headers)
        event = worker_events.parse(raw)
        session = await records.session(self._context.scripts, event.session_id)
        if session is None or event.epoch != session.epoch:
            raise tokens.fenced(session.epoch if session else 0)
        await self._once(webhook_id, body, session, event)

    def _genuine(self, raw: Mapping[str, Any], body: bytes, headers: Mapping[str, str]) -> str:
        """Check time and signature with the secret of the worker it says to be from; gives the event's id."""
        webhook_id, stamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
        if not webhook_id or not _STAMP.fullmatch(stamp) or not headers.get("webhook-signature"):
            raise Refused("BAD_SIGNATURE", "The headers webhook-id, -timestamp and -signature are needed.", 401)
        if abs(time.time() - int(stamp)) > WINDOW_S:
            raise Refused(
                "STALE_SIGNATURE", "The signature is older or newer than 5 minutes. Compare the two clocks.", 401
            )
        session_id, epoch = raw.get("sessionId"), raw.get("epoch")
        if not isinstance(session_id, str) or not isinstance(epoch, int):
            raise Refused("BAD_SIGNATURE", "An event names its session and its epoch.", 401)
        secret = tokens.mint(self._context.settings, session_id, epoch).webhook_secret
        try:
            Webhook(secret).verify(body, dict(headers))
        except WebhookVerificationError as error:
            raise Refused("BAD_SIGNATURE", "The signature does not fit the body and this worker.", 401) from error
        return webhook_id

    async def _once(self, webhook_id: str, body: bytes, session: Session, event: WorkerEvent) -> None:
        """Handle an event unless it was accepted before. One that failed midway may come again."""
        redis, key = self._context.redis, keys.heard(session.id, webhook_id[:200])
        if not await redis.set(key, _WORKING, nx=True, px=_WORKING_MS):
            if await redis.get(key) == _WORKING:
                raise Unavailable("STILL_WORKING", "This event is being taken in just now.", retryAfterS=1)
            raise Refused("DUPLICATE", "This event was accepted before. Go on with the next one.", 409)
        try:
            await self._handle(session, event)
        except BaseException:
            await redis.delete(key)
            raise
        await redis.set(key, hashlib.sha256(body).hexdigest(), px=_REMEMBERED_MS)

    async def _handle(self, session: Session, event: WorkerEvent) -> None:
        handler = self._handlers.get(type(event.payload))
        log.debug("event.taken", session=session.id, type=event.type, epoch=event.epoch)
        if handler is not None:
            await handler(self._context, session, event)


def _json(body: bytes) -> Mapping[str, Any]:
    if len(body) > MOST_BYTES:
        raise Refused("BODY_TOO_LONG", f"An event has at most {MOST_BYTES} bytes.", 413)
    try:
        raw = json.loads(body)
    except (ValueError, RecursionError):
        raw = None
    if not isinstance(raw, dict):
        raise Refused("BAD_EVENT", "An event is a JSON object.")
    return raw
