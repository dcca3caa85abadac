"""Files of the inbox: those that people sent, and those that go with a reply."""

from typing import Annotated, Final
from urllib.parse import unquote

from fastapi import APIRouter, Header, Request
from starlette.responses import JSONResponse, Response

from wa_orchestrator.context import Context
from wa_orchestrator.dashboard import guard
from wa_orchestrator.dashboard.guard import LoggedInPerson
from wa_orchestrator.dashboard.login import require_operator
from wa_orchestrator.errors import Refused
from wa_orchestrator.messages import uploads
from wa_orchestrator.messages.uploads import MAX_UPLOAD_BYTES
from wa_orchestrator.orchestrator.api.media import IncomingId, MediaRoutes
from wa_orchestrator.orchestrator.api.message_acts import AnyMessageId
from wa_orchestrator.web import request_body

_LONGEST_NAME: Final = 255


class InboxFileRoutes(APIRouter):
    """Routes `/inbox/media/…`, `/inbox/thumbnail/…` and `/inbox/upload`, for people: the API's own are for keys."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self._context = context
        self._media = MediaRoutes(context)
        self.get("/inbox/media/{message_id}")(self.message_file)
        self.get("/inbox/thumbnail/{message_id}")(self.thumbnail)
        self.post("/inbox/upload")(self.upload)

    async def message_file(self, message_id: AnyMessageId, person: LoggedInPerson) -> Response:
        """Return the file of a message, if the person sees its session."""
        return await self._media.get_media(message_id, person.caller)

    async def thumbnail(self, message_id: IncomingId, person: LoggedInPerson) -> Response:
        """Return the small picture of an incoming message, if the person sees its session."""
        return await self._media.get_thumbnail(message_id, person.caller)

    async def upload(
        self,
        request: Request,
        person: LoggedInPerson,
        x_filename: Annotated[str, Header(max_length=3 * _LONGEST_NAME)] = "",
    ) -> Response:
        """Store a file for a reply; its bytes are the body."""
        guard.require_csrf_token(request, person, request.headers.get("x-csrf-token", ""))
        require_operator(person)
        if (request_body.declared_bytes(request.scope) or 0) > MAX_UPLOAD_BYTES:
            raise Refused("FILE_TOO_LARGE", f"A file has at most {MAX_UPLOAD_BYTES} bytes.", 413)
        name = "".join(each for each in unquote(x_filename) if each.isprintable())[:_LONGEST_NAME]
        kind = request.headers.get("content-type", "") or "application/octet-stream"
        owner = person.caller.key_id
        stored = await uploads.save(
            self._context.settings, request.stream(), mimetype=kind[:120], filename=name, owner=owner
        )
        return JSONResponse({"uploadId": stored.id, "kind": uploads.kind_of(stored.mimetype)})
