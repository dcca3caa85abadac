"""`POST /api/v1/send/batch`: up to 1,000 messages, each validated and answered on its own."""

import asyncio
import hashlib
import json
import secrets
from collections import Counter
from typing import Any, Final

from fastapi import APIRouter
from pydantic import ValidationError
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response

from wa_orchestrator.context import Context
from wa_orchestrator.domain.access.permissions import RouteSpan, Scope
from wa_orchestrator.domain.messages.content import Content, Media
from wa_orchestrator.errors import OrchestratorError, Refused, Unavailable
from wa_orchestrator.gateway import content_loader, idempotency, message_body, replies
from wa_orchestrator.gateway.acceptance import Acceptor, SendReply, SendRequest
from wa_orchestrator.gateway.content_loader import ContentLoader
from wa_orchestrator.gateway.references import References
from wa_orchestrator.gateway.request_models import BatchBody, BatchEnvelope, SendBody
from wa_orchestrator.gateway.response_models import BatchResponse
from wa_orchestrator.gateway.routes import raw_route
from wa_orchestrator.gateway.routes.raw_route import IdempotencyKey, outages_as_unavailable
from wa_orchestrator.gateway.senders.sender_pool import SenderPool
from wa_orchestrator.store.messages.admission import MOST_AT_ONCE
from wa_orchestrator.web import auth, request_body
from wa_orchestrator.web.auth import Caller
from wa_orchestrator.web.keyed_route import longest_body

PATH: Final = "/api/v1/send/batch"
MAX_BYTES: Final = 16 * 1024 * 1024
#: Different files that one batch may have fetched from URLs; more belong into uploads.
_MAX_URLS: Final = 20
_MINUTE_MS: Final = 60_000

_validate: Final = BatchEnvelope.__pydantic_validator__.validate_json


class BatchHandler:
    """Answers one batch."""

    def __init__(self, context: Context, acceptor: Acceptor, pool: SenderPool, contents: ContentLoader) -> None:
        self._context = context
        self._acceptor = acceptor
        self._pool = pool
        self._contents = contents
        self._references = References(context)

    async def __call__(self, request: Request) -> Response:
        """Accept the messages of a batch."""
        with outages_as_unavailable():
            caller = await auth.authenticate(self._context, request, Scope.SEND, RouteSpan.SESSIONS)
            await self._acceptor.count_call(caller.key_id)
            batch = _parse(await request_body.read(request, MAX_BYTES))
            now_ms = (await self._pool.current()).now_ms()
            key = message_body.header_key(dict(request.scope["headers"]))
            batch_id = _batch_id(caller.key_id, key)
            items = _Items(
                self._contents, self._references, caller, key, batch_id=batch_id, spread_minutes=batch.spread_minutes
            )
            return _response(batch_id, await self._accept(await items.requests(batch.messages, now_ms)))

    async def _accept(self, items: list[SendRequest | OrchestratorError]) -> list[SendReply | OrchestratorError]:
        requests = [item for item in items if isinstance(item, SendRequest)]
        outcomes: list[SendReply | OrchestratorError] = []
        for start in range(0, len(requests), MOST_AT_ONCE):  # other requests get their turn in between
            some = requests[start : start + MOST_AT_ONCE]
            try:
                outcomes += await self._acceptor.accept_many(some)
            except OrchestratorError as error:
                outcomes += [error] * len(some)
            if any(isinstance(each, Unavailable) for each in outcomes):
                outcomes += [replies.unavailable()] * (len(requests) - len(outcomes))
                break
        rest = iter(outcomes)
        return [next(rest) if isinstance(item, SendRequest) else item for item in items]


class _Items:
    """Turns the items of one batch into requests."""

    def __init__(
        self,
        contents: ContentLoader,
        references: References,
        caller: Caller,
        key: str | None,
        *,
        batch_id: str,
        spread_minutes: float,
    ) -> None:
        self._contents = contents
        self._references = references
        self._caller = caller
        self._key = key
        self._batch_id = batch_id
        self._spread_ms = spread_minutes * _MINUTE_MS
        self._files: dict[str, asyncio.Task[Media]] = {}
        self._previews: dict[str, asyncio.Task[Content]] = {}

    async def requests(self, raws: list[Any], now_ms: int) -> list[SendRequest | OrchestratorError]:
        """Parse all items; an invalid one becomes its error."""
        found: list[SendRequest | OrchestratorError] = []
        for index, raw in enumerate(raws):
            turn_ms = now_ms + int(self._spread_ms * index / len(raws))
            try:
                found.append(await self._request(index, raw, now_ms, turn_ms))
            except OrchestratorError as error:
                found.append(error)
        return found

    async def _request(self, index: int, raw: Any, now_ms: int, turn_ms: int) -> SendRequest:
        body = message_body.parse(to_json(raw), now_ms)
        key = body.idempotency_key
        if key is None and self._key is not None:
            key = f"{self._key}#{index}"
        # An item's turn depends on when the batch arrived, so it is not part of what makes two requests the same.
        canonical = message_body.canonical(body) + str(self._spread_ms).encode()
        record = idempotency.record_of(self._caller.key_id, key, canonical)
        content = self._contents.inline(body)
        if content is None:
            body, quote = await self._references.resolve(body, self._caller)
            carried = await (self._file(body) if body.media else self._written(body))
            content = content_loader.stored(carried, content_loader.beside(body, quote))
        due_ms = max(turn_ms, body.send_at or 0) if self._spread_ms and index else 0
        caller = self._caller
        return SendRequest(body, content, caller.key_id, record, due_ms, self._batch_id, caller.reach)

    async def _written(self, body: SendBody) -> Content:
        """Return a content without a file. The page of a link is read once for all equal texts, and of so many only."""
        text = body.message or body.text or ""
        if not body.link_preview or (text not in self._previews and len(self._previews) >= _MAX_URLS):
            return content_loader.plain(body)
        if text not in self._previews:
            self._previews[text] = asyncio.ensure_future(self._contents.load(body, self._caller))
        return await self._previews[text]

    async def _file(self, body: SendBody) -> Media:
        if body.media is None or body.media.url is None:
            return await self._contents.fetch(body, self._caller)
        name = body.media.model_dump_json()
        if name not in self._files:
            if len(self._files) >= _MAX_URLS:
                text = f"A batch names {_MAX_URLS} URLs at most. Upload the files first."
                raise Refused("TOO_MANY_FILES", text, 422)
            self._files[name] = asyncio.ensure_future(self._contents.fetch(body, self._caller))
        return await self._files[name]


def _parse(raw: bytes) -> BatchEnvelope:
    try:
        batch: BatchEnvelope = _validate(raw)
    except ValidationError as error:
        raise message_body.invalid(error) from None
    return batch


def _batch_id(api_key: str, key: str | None) -> str:
    """Return a new id, or for a repeated batch the same one."""
    if key is None:
        return f"b_{secrets.token_hex(9)}"
    return f"b_{hashlib.sha256(f'{api_key} {key}'.encode()).hexdigest()[:18]}"


def _response(batch_id: str, outcomes: list[SendReply | OrchestratorError]) -> Response:
    accepted = sum(isinstance(outcome, SendReply) for outcome in outcomes)
    outage = next((each for each in outcomes if isinstance(each, Unavailable)), None)
    if outage is not None and not accepted:
        raise outage
    items = ",".join(_item(outcome) for outcome in outcomes)
    replied = [json.loads(each.json) for each in outcomes if isinstance(each, SendReply)]
    last, warnings = json.dumps(_last_eta(replied)), _warnings(replied)
    counts = f'"accepted":{accepted},"refused":{len(outcomes) - accepted}'
    body = f'{{"batchId":"{batch_id}",{counts},"lastEta":{last},{warnings}"items":[{items}]}}'
    return Response(body, 202, media_type="application/json")


def _last_eta(responses: list[dict[str, Any]]) -> str | None:
    """Return the latest eta of these responses; None if one has none. Times in UTC sort as text."""
    etas = [each["eta"] for each in responses]
    return None if None in etas else max(etas, default=None)


def _warnings(responses: list[dict[str, Any]]) -> str:
    """Return how many messages have which warning, as a member of the response; '' if none has one."""
    counts = Counter(warning["code"] for each in responses for warning in each.get("warnings", ()))
    listed = [{"code": code, "messages": count} for code, count in sorted(counts.items())]
    return f'"warnings":{json.dumps(listed)},' if listed else ""


def _item(outcome: SendReply | OrchestratorError) -> str:
    if isinstance(outcome, SendReply):
        return outcome.json
    error = {"code": outcome.code, "message": outcome.text, **outcome.details}
    return json.dumps({"queued": False, "error": error}, ensure_ascii=False)


def router(handler: BatchHandler) -> APIRouter:
    """Return the route that sends a batch."""

    @longest_body(MAX_BYTES)
    async def send_batch(body: BatchBody, idempotency_key: IdempotencyKey = None) -> BatchResponse:
        """Send up to 1,000 messages."""
        raise AssertionError((body, idempotency_key))

    return raw_route.router([PATH], handler, send_batch)
