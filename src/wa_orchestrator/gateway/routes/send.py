"""`POST /api/v1/send` and `POST /api/send`: one message."""

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from wa_orchestrator.context import Context
from wa_orchestrator.domain.access.permissions import RouteSpan, Scope
from wa_orchestrator.errors import Refused
from wa_orchestrator.gateway import content_loader, idempotency, message_body
from wa_orchestrator.gateway.acceptance import Acceptor, SendReply, SendRequest
from wa_orchestrator.gateway.content_loader import ContentLoader
from wa_orchestrator.gateway.references import References
from wa_orchestrator.gateway.request_models import SendBody
from wa_orchestrator.gateway.response_models import AcceptedMessage
from wa_orchestrator.gateway.routes import raw_route
from wa_orchestrator.gateway.routes.raw_route import IdempotencyKey, outages_as_unavailable
from wa_orchestrator.gateway.senders.sender_pool import SenderPool
from wa_orchestrator.instruments import timed
from wa_orchestrator.web import auth, request_body
from wa_orchestrator.web.auth import Caller

PATHS: Final = ("/api/v1/send", "/api/send")
#: 4,096 characters, each written as two \\u escapes, and the rest.
MAX_BYTES: Final = 256 * 1024
REPLAYED: Final = (("idempotent-replayed", "true"),)


class SendHandler:
    """Answers one request. The hot path calls `reply`, for requests that need more than one question to Redis."""

    def __init__(self, context: Context, acceptor: Acceptor, pool: SenderPool, contents: ContentLoader) -> None:
        self._context = context
        self._acceptor = acceptor
        self._pool = pool
        self._contents = contents
        self._references = References(context)

    async def __call__(self, request: Request) -> Response:
        """Accept the message of a request."""
        reply = await self.reply(request)
        return Response(reply.json, 202, dict(REPLAYED) if reply.is_replay else None, "application/json")

    async def reply(self, request: Request, raw: bytes | None = None) -> SendReply:
        """Accept the message of a request. `raw` is its body where that is read already."""
        with outages_as_unavailable(), timed(self._context.instruments.accept):
            return await self._reply(request, raw)

    async def _reply(self, request: Request, raw: bytes | None) -> SendReply:
        caller = await auth.authenticate(self._context, request, Scope.SEND, RouteSpan.SESSIONS)
        try:
            if raw is None:
                raw = await request_body.read(request, MAX_BYTES)
            body = message_body.parse(raw, (await self._pool.current()).now_ms())
            key = message_body.idempotency_key(dict(request.scope["headers"]), body)
        except Refused:
            await self._acceptor.count_call(caller.key_id)
            raise
        return await self._accept(caller, body, key)

    async def _accept(self, caller: Caller, body: SendBody, key: str | None) -> SendReply:
        api_key, reach = caller.key_id, caller.reach
        record = idempotency.record_of(api_key, key, message_body.canonical(body)) if key else None
        content = self._contents.inline(body)
        if content is not None:
            request = SendRequest(body, content, api_key, record, reach=reach)
            return await self._acceptor.accept(request, self._acceptor.rate_of(api_key))
        # Fetching a file takes time: count the call first, and do not fetch it twice for the same request.
        await self._acceptor.count_call(api_key)
        stored = None if record is None else await self._acceptor.stored.find(record)
        if stored is not None:
            return SendReply(stored, is_replay=True)
        body, quote = await self._references.resolve(body, caller)
        carried = await self._contents.load(body, caller)
        content = content_loader.stored(carried, content_loader.beside(body, quote))
        return await self._acceptor.accept(SendRequest(body, content, api_key, record, reach=reach))


def router(handler: SendHandler) -> APIRouter:
    """Return the routes that send one message."""

    async def send_message(body: SendBody, idempotency_key: IdempotencyKey = None) -> AcceptedMessage:
        """Send one message."""
        raise AssertionError((body, idempotency_key))

    return raw_route.router(PATHS, handler, send_message)
