"""The two doors that must be fast: one message, and a batch. They read the bytes themselves; OpenAPI only shows them.

A door is an ASGI application of its own, so that the gateway can put it before everything else (`front`), and it
answers a FastAPI route just as well (`RawRoute`).
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, ClassVar, Final, Protocol

import structlog
from fastapi.routing import APIRoute
from pydantic import ValidationError
from pydantic_core import from_json
from redis.exceptions import RedisError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from wa_orchestrator.context import Context
from wa_orchestrator.errors import Refused
from wa_orchestrator.gateway import sender_choice
from wa_orchestrator.gateway.acceptance import Order, Taken, Taking, idempotency
from wa_orchestrator.gateway.content_loader import Contents
from wa_orchestrator.gateway.hot_path.redis_pipeline import unavailable
from wa_orchestrator.gateway.request_models import LONGEST_KEY, Problem, SendBody, cross_problems
from wa_orchestrator.gateway.sender_pool import SenderPool
from wa_orchestrator.store.api_keys import Scope as KeyScope
from wa_orchestrator.web import auth, problems, request_body
from wa_orchestrator.web.app import API_HEADERS
from wa_orchestrator.web.auth import Caller
from wa_orchestrator.web.problems import Invalid

#: 4,096 characters, each written as two \\u escapes, and the rest.
MOST_BYTES: Final = 256 * 1024
#: What every answer of a door has. The same that `web.app.Guard` adds; a door may stand before it.
HEADERS: Final = [(b"content-type", b"application/json"), *API_HEADERS]
_REPLAYED: Final = (b"idempotent-replayed", b"true")
_validate: Final = SendBody.__pydantic_validator__.validate_json
_serialize: Final = SendBody.__pydantic_serializer__.to_json

log = structlog.get_logger(__name__)

Told = tuple[int, list[tuple[bytes, bytes]], bytes]
"""Status, headers beside `HEADERS`, and body of an answer."""


class Door(Protocol):
    """Something that answers a request in full."""

    def at_once(self, headers: Mapping[bytes, bytes], raw: bytes, tell: Callable[[Told], None]) -> bool:
        """Answer a whole request by `tell`, without a task of its own. False, and nothing done, where it cannot be."""
        ...

    async def tell(self, scope: Scope, receive: Receive) -> Told:
        """Read the request and give the answer. Raises nothing but what breaks the connection."""
        ...


def application(door: Door) -> ASGIApp:
    """Make an ASGI application of a door."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        status, more, body = await door.tell(scope, receive)
        headers = _complete(more, body)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return serve


class RawRoute(APIRoute):
    """A route that FastAPI describes and a door answers: its endpoint carries the door as `door`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Let the door answer; what the endpoint declares is for the description only."""
        door: Door = self.endpoint.door  # type: ignore[attr-defined]

        async def handle(request: Request) -> Response:
            status, more, body = await door.tell(request.scope, request.receive)
            response = Response(body, status)
            response.raw_headers[:] = _complete(more, body)
            return response

        return handle


def _complete(more: list[tuple[bytes, bytes]], body: bytes) -> list[tuple[bytes, bytes]]:
    return list({**dict(HEADERS), **dict(more), b"content-length": str(len(body)).encode()}.items())


class Entry:
    """What both doors do first: who calls, with which key of their own, and the bytes."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def known(self, headers: Mapping[bytes, bytes]) -> Caller | None:
        """Say who calls if that was looked up a moment ago, and they may send."""
        return auth.cached_caller(self._context, headers, KeyScope.SEND)

    async def caller(self, scope: Scope) -> Caller:
        """Say who calls; raises for nobody, or for somebody who may not send."""
        try:
            return await auth.authenticate(self._context, Request(scope), KeyScope.SEND)
        except (RedisError, OSError) as error:
            raise unavailable() from error


class SendDoor:
    """`POST /api/v1/send` and `POST /api/send`."""

    paths: ClassVar = ("/api/v1/send", "/api/send")

    def __init__(self, context: Context, taking: Taking, view: SenderPool, contents: Contents) -> None:
        self._entry = Entry(context)
        self._taking = taking
        self._view = view
        self._contents = contents

    def at_once(self, headers: Mapping[bytes, bytes], raw: bytes, tell: Callable[[Told], None]) -> bool:
        """Take a message in of which all is known: who calls, who sends it and how, and that it is in order."""
        caller, fleet = self._entry.known(headers), self._view.at_hand()
        if caller is None or fleet is None:
            return False
        try:
            send = read(raw, fleet.now_ms())
            content = self._contents.ready(send)
            if content is None or send.idempotency_key is not None or sender_choice.is_free(send):
                return False
            choice = sender_choice.choose(fleet, send, None)
        except Refused:  # the other way says why, and counts the call
            return False

        def answer(outcome: str | Exception) -> None:
            tell((202, [], outcome.encode()) if isinstance(outcome, str) else failure(outcome))

        return self._taking.at_once(Order(send, content, caller.key_id), choice, fleet, answer)

    async def tell(self, scope: Scope, receive: Receive) -> Told:
        """Take one message in."""
        return await answered(self._take(scope, receive))

    async def _take(self, scope: Scope, receive: Receive) -> Told:
        headers = dict(scope["headers"])
        caller = await self._entry.caller(scope)
        try:
            send = read(
                await request_body.read(Request(scope, receive), MOST_BYTES), (await self._view.current()).now_ms()
            )
            key = key_of(headers, send)
        except Refused:
            await self._taking.count(caller.key_id)
            raise
        taken = await self._taken(caller.key_id, send, key)
        return 202, [_REPLAYED] if taken.is_replay else [], taken.answer.encode()

    async def _taken(self, api_key: str, send: SendBody, key: str | None) -> Taken:
        record = None if key is None else idempotency(api_key, key, canonical(send))
        content = self._contents.ready(send)
        if content is not None:
            return await self._taking.take(Order(send, content, api_key, record), self._taking.rate_of(api_key))
        # A file takes time: count first, and do not fetch it twice for the same request.
        await self._taking.count(api_key)
        known = await self._taking.known(record) if record is not None else None
        if known is not None:
            return known
        return await self._taking.take(Order(send, await self._contents.fetch(send), api_key, record), None)


def read(raw: bytes, now_ms: int) -> SendBody:
    """Read one message; raises `Invalid` with everything that is wrong with it."""
    try:
        send = _validate(raw)
    except ValidationError as error:
        raise invalid(error, raw, now_ms) from None
    checked: SendBody = send
    if _is_suspicious(checked, now_ms):
        found = list(cross_problems(from_json(raw), now_ms))
        if found:
            raise Invalid(found)
    return checked


def invalid(error: ValidationError, raw: bytes, now_ms: int) -> Refused:
    """List all problems of a message: those of its fields and those between them."""
    found = error.errors(include_url=False, include_input=False)
    if any(each["type"] == "json_invalid" for each in found):
        return problems.not_json()
    listed: list[Problem] = [*problems.invalid(found).details["errors"]]  # type: ignore[misc]
    whole = from_json(raw)
    if isinstance(whole, dict):
        told = {each["path"] for each in listed}
        listed += [each for each in cross_problems(whole, now_ms) if each["path"] not in told]
    return Invalid(listed)


def _is_suspicious(send: SendBody, now_ms: int) -> bool:
    """Whether something between the fields may be wrong; nearly always not, and then nothing is parsed twice."""
    is_just_a_text = send.message is not None and send.text is None and send.media is None and send.location is None
    return not is_just_a_text or send.send_at is not None or send.expires_at is not None


def canonical(send: SendBody) -> bytes:
    """Give the body of a message in the one form in which two of them are compared."""
    return bytes(_serialize(send, exclude={"idempotency_key"}))


def key_of(headers: dict[bytes, bytes], send: SendBody) -> str | None:
    """Give the idempotency key of a request: the header, or the field."""
    raw = headers.get(b"idempotency-key")
    if raw is None:
        return send.idempotency_key
    key = header_key(raw)
    if send.idempotency_key is not None and send.idempotency_key != key:
        raise Invalid([_key_problem("The header Idempotency-Key and the field differ. Give one of them.")])
    return key


def header_key(raw: bytes) -> str:
    """Read the header `Idempotency-Key`."""
    key = raw.decode("latin-1").strip()
    if not 1 <= len(key) <= LONGEST_KEY:
        raise Invalid([_key_problem(f"An Idempotency-Key has 1 to {LONGEST_KEY} characters.")])
    return key


def _key_problem(text: str) -> Problem:
    return {"path": "idempotencyKey", "code": "idempotency_key", "message": text}


async def answered(work: Awaitable[Told]) -> Told:
    """Do the work, and put every error into the form that clients know."""
    try:
        return await work
    except Exception as error:
        return failure(error)


def failure(error: Exception) -> Told:
    """Give the answer for an error, and log what the client is not told."""
    if isinstance(error, RedisError | TimeoutError):
        log.warning("request.redis_unavailable", error=type(error).__name__)
        error = unavailable()
    response = problems.to_response(error)
    return response.status_code, response.raw_headers, bytes(response.body)
