"""`POST /api/v1/send/batch`: up to 1,000 messages, each checked and answered by itself."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from pydantic import ValidationError
from pydantic_core import to_json
from starlette.requests import Request
from starlette.types import Receive, Scope

from wa_orchestrator.context import Context
from wa_orchestrator.errors import OrchestratorError, Refused, Unavailable
from wa_orchestrator.gateway import replies
from wa_orchestrator.gateway.acceptance import Order, Taken, Taking, idempotency
from wa_orchestrator.gateway.content_loader import Content, Contents
from wa_orchestrator.gateway.hot_path.redis_pipeline import unavailable
from wa_orchestrator.gateway.request_models import BatchEnvelope, SendBody
from wa_orchestrator.gateway.routes import send as doors
from wa_orchestrator.gateway.routes.send import Entry, Told
from wa_orchestrator.gateway.sender_pool import SenderPool
from wa_orchestrator.store.admission import MOST_AT_ONCE
from wa_orchestrator.web import problems, request_body

MOST_BYTES: Final = 16 * 1024 * 1024
#: Messages that go to Redis in one call; others get their turn in between.
_AT_ONCE: Final = MOST_AT_ONCE
#: Different files that one batch may have us read from elsewhere; more belong into uploads.
_MOST_ADDRESSES: Final = 20
_MINUTE_MS: Final = 60_000

Item = Order | OrchestratorError
_validate: Final = BatchEnvelope.__pydantic_validator__.validate_json


class BatchDoor:
    """Answers a batch."""

    paths: ClassVar = ("/api/v1/send/batch",)

    def __init__(self, context: Context, taking: Taking, view: SenderPool, contents: Contents) -> None:
        self._entry = Entry(context)
        self._taking = taking
        self._view = view
        self._contents = contents

    def at_once(self, headers: Mapping[bytes, bytes], raw: bytes, tell: Callable[[Told], None]) -> bool:
        """A batch takes its time."""
        return False

    async def tell(self, scope: Scope, receive: Receive) -> Told:
        """Take a batch in."""
        return await doors.answered(self._take(scope, receive))

    async def _take(self, scope: Scope, receive: Receive) -> Told:
        headers = dict(scope["headers"])
        caller = await self._entry.caller(scope)
        await self._taking.count(caller.key_id)
        batch = _read(await request_body.read(Request(scope, receive), MOST_BYTES))
        now_ms = (await self._view.current()).now_ms()
        raw_key = headers.get(b"idempotency-key")
        key = None if raw_key is None else doors.header_key(raw_key)
        items = _Items(self._contents, caller.key_id, key, batch.spread_minutes)
        orders = await items.orders(batch.messages, now_ms)
        return _told(await self._taken(orders))

    async def _taken(self, items: list[Item]) -> list[Taken | OrchestratorError]:
        going = [item for item in items if isinstance(item, Order)]
        outcomes: list[Taken | OrchestratorError] = []
        for start in range(0, len(going), _AT_ONCE):
            some = going[start : start + _AT_ONCE]
            try:
                outcomes += await self._taking.take_many(some)
            except OrchestratorError as error:
                outcomes += [error] * len(some)
            away = next((each for each in outcomes if isinstance(each, Unavailable)), None)
            if away is not None:
                outcomes += [unavailable()] * (len(going) - len(outcomes))
                break
        rest = iter(outcomes)
        return [next(rest) if isinstance(item, Order) else item for item in items]


class _Items:
    """Makes orders of the items of one batch."""

    def __init__(self, contents: Contents, api_key: str, key: str | None, spread_minutes: float) -> None:
        self._contents = contents
        self._api_key = api_key
        self._key = key
        self._spread_ms = spread_minutes * _MINUTE_MS
        self._files: dict[str, asyncio.Task[Content]] = {}

    async def orders(self, raws: list[Any], now_ms: int) -> list[Item]:
        """Read all items; one that is wrong becomes its error."""
        found: list[Item] = []
        for at, raw in enumerate(raws):
            try:
                found.append(await self._order(at, raw, now_ms, now_ms + int(self._spread_ms * at / len(raws))))
            except OrchestratorError as error:
                found.append(error)
        return found

    async def _order(self, at: int, raw: Any, now_ms: int, turn_ms: int) -> Order:
        send = doors.read(to_json(raw), now_ms)
        key = send.idempotency_key
        if key is None and self._key is not None:
            key = f"{self._key}#{at}"
        # The time of its turn depends on when the batch came, so it is no part of what makes two requests the same.
        record = idempotency(self._api_key, key, doors.canonical(send) + str(self._spread_ms).encode())
        content = self._contents.ready(send) or await self._file(send)
        due_ms = max(turn_ms, send.send_at or 0) if self._spread_ms and at else 0
        return Order(send, content, self._api_key, record, due_ms)

    async def _file(self, send: SendBody) -> Content:
        if send.media is None or send.media.url is None:
            return await self._contents.fetch(send)
        name = send.media.model_dump_json()
        if name not in self._files:
            if len(self._files) >= _MOST_ADDRESSES:
                raise Refused(
                    "TOO_MANY_FILES", f"A batch names {_MOST_ADDRESSES} addresses at most. Upload the files first.", 422
                )
            self._files[name] = asyncio.ensure_future(self._contents.fetch(send))
        return await self._files[name]


def _read(raw: bytes) -> BatchEnvelope:
    try:
        batch: BatchEnvelope = _validate(raw)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        if any(each["type"] == "json_invalid" for each in found):
            raise problems.not_json() from None
        raise problems.invalid(found) from None
    return batch


def _told(outcomes: list[Taken | OrchestratorError]) -> Told:
    accepted = sum(isinstance(outcome, Taken) for outcome in outcomes)
    away = next((each for each in outcomes if isinstance(each, Unavailable)), None)
    if away is not None and not accepted:
        raise away
    items = ",".join(_item(outcome) for outcome in outcomes)
    head = f'{{"accepted":{accepted},"refused":{len(outcomes) - accepted},"items":['
    return 202, [], f"{head}{items}]}}".encode()


def _item(outcome: Taken | OrchestratorError) -> str:
    if isinstance(outcome, Taken):
        return outcome.answer
    return replies.refused_item(outcome.code, outcome.text, outcome.details)
