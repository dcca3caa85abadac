"""The workers' side of messages: claim what was released, and say what became of it. A worker decides nothing."""

import base64
import json
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import FileResponse, JSONResponse
from fastapi.routing import APIRoute

from wa_orchestrator import uploads
from wa_orchestrator.context import Context
from wa_orchestrator.errors import Refused
from wa_orchestrator.orchestrator.messages.outbox_service import AckBody, ClaimBody, Desk, NackBody
from wa_orchestrator.orchestrator.messages.outbox_signal import Bells
from wa_orchestrator.orchestrator.workers import command_calls

FENCED = "FENCED"
BASE = "/api/worker/sessions/{session_id}"
SessionId = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class WorkerRoute(APIRoute):
    """A route of workers: the word FENCED stands at the top of its answer too, where every worker looks for it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the handler."""
        handler = super().get_route_handler()

        async def with_code(request: Request) -> Response:
            try:
                return await handler(request)
            except Refused as refusal:
                if refusal.code != FENCED:
                    raise
                error = {"code": FENCED, "message": refusal.text, **refusal.details}
                return JSONResponse({"code": FENCED, "error": error}, status_code=409)

        return with_code


def router(context: Context, bells: Bells | None = None) -> APIRouter:
    """Offer the outbox endpoints to workers."""
    routes = APIRouter(prefix=BASE, tags=["workers"], include_in_schema=False, route_class=WorkerRoute)
    api = _Outbox(context, bells or Bells(context.redis))
    routes.post("/outbox/claim")(api.claim)
    routes.post("/outbox/{message_id}/ack")(api.ack)
    routes.post("/outbox/{message_id}/nack")(api.nack)
    routes.post("/outbox/{message_id}/renew")(api.renew)
    routes.post("/outbox/commands/{command_id}/result")(api.result)
    routes.get("/media/{upload_id}")(api.media)
    return routes


class _Outbox:
    """One method per route: who calls, then what the desk does for them."""

    def __init__(self, context: Context, bells: Bells) -> None:
        self._context = context
        self._desk = Desk(context, bells)

    async def claim(self, request: Request, session_id: SessionId, body: ClaimBody | None = None) -> Response:
        session = await self._desk.worker(request, session_id)
        return await self._desk.claim(request, session, body or ClaimBody())

    async def ack(self, request: Request, session_id: SessionId, message_id: str, body: AckBody) -> Response:
        try:
            await self._desk.worker(request, session_id)
        except Refused as refusal:
            if refusal.code != FENCED:  # that WhatsApp has it is true whoever says it, an older worker too
                raise
        return await self._desk.ack(session_id, message_id, body)

    async def nack(self, request: Request, session_id: SessionId, message_id: str, body: NackBody) -> Response:
        session = await self._desk.worker(request, session_id)
        return await self._desk.nack(session, message_id, body)

    async def renew(self, request: Request, session_id: SessionId, message_id: str) -> Response:
        session = await self._desk.worker(request, session_id)
        return await self._desk.renew(session, message_id)

    async def result(self, request: Request, session_id: SessionId, command_id: str) -> Response:
        await self._desk.worker(request, session_id)
        await command_calls.answer_with(self._context, command_id, await _answer_in(request))
        return JSONResponse({"ok": True})

    async def media(self, request: Request, session_id: SessionId, upload_id: str) -> Response:
        await self._desk.worker(request, session_id)
        upload = uploads.open(self._context.settings, upload_id)
        if upload is None:
            raise Refused("NO_SUCH_UPLOAD", "There is no such file, or its time is over.", 404)
        return FileResponse(upload.path, media_type=upload.mimetype, filename=upload.filename or None)


async def _answer_in(request: Request) -> dict[str, Any]:
    """Read a worker's answer to a command: a JSON object, or the bytes of a file."""
    raw = await request.body()
    mimetype = request.headers.get("content-type", "application/octet-stream")
    if mimetype.partition(";")[0].strip() != "application/json":
        return {"base64": base64.b64encode(raw).decode(), "mimetype": mimetype}
    try:
        answer = json.loads(raw)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise Refused("BAD_JSON", "The body is not a JSON object. Send one, or a file with its own Content-Type.")
    return answer
