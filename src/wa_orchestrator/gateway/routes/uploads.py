"""`POST /api/v1/uploads`: stores a file for a message, sent as the body or in a form."""

import re
import time
from collections.abc import AsyncIterator
from typing import Annotated, Final

from fastapi import Header, Request
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException

from wa_orchestrator.context import Context
from wa_orchestrator.errors import Refused
from wa_orchestrator.gateway.acceptance import Acceptor
from wa_orchestrator.gateway.response_models import StoredUpload
from wa_orchestrator.messages import uploads
from wa_orchestrator.messages.uploads import MAX_UPLOAD_BYTES, UNUSED_S, Upload
from wa_orchestrator.web import request_body
from wa_orchestrator.web.auth import LimitedSender
from wa_orchestrator.web.keyed_route import longest_body
from wa_orchestrator.web.problems import responses
from wa_orchestrator.web.route_group import RouteGroup

_MIMETYPE = re.compile(r"[A-Za-z0-9][\w.+-]*/[A-Za-z0-9][\w.+-]*(;[ -~]*)?")
_FORM: Final = "multipart/form-data"
_CHUNK: Final = 65536
#: What a form adds to the file.
_FORM_BYTES: Final = 64 * 1024
_ERRORS = responses(
    BAD_FORM=400, FILE_TOO_LARGE=413, UNSUPPORTED_TYPE=415, CONTENT_ENCODED=415, FILE_EMPTY=422,
    RATE_LIMITED=429, QUEUE_UNAVAILABLE=503, FILE_STORE_UNAVAILABLE=503, UPLOAD_QUOTA=507, DISK_FULL=507,
)  # fmt: skip
_FILE = {"type": "string", "format": "binary"}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/octet-stream": {"schema": _FILE},
            _FORM: {"schema": {"type": "object", "required": ["file"], "properties": {"file": _FILE}}},
        },
    }
}


class UploadRoutes(RouteGroup):
    """Routes `/api/v1/uploads`."""

    def __init__(self, context: Context, acceptor: Acceptor) -> None:
        super().__init__(context, "/api/v1/uploads", "messages")
        self._acceptor = acceptor
        self.post("", status_code=201, responses=_ERRORS, openapi_extra=_BODY)(self.upload_file)

    # The handler's own limits give better answers than this one, which is above them.
    @longest_body(2 * MAX_UPLOAD_BYTES)
    async def upload_file(
        self, request: Request, caller: LimitedSender, x_filename: Annotated[str, Header(max_length=255)] = ""
    ) -> StoredUpload:
        """Store a file for a message.

        Send a form with the field `file`, or the bytes themselves with their own Content-Type (`image/png`, …).
        """
        await self._acceptor.count_call(caller.key_id)
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise Refused("CONTENT_ENCODED", "Send the file without Content-Encoding; it is not decoded here.", 415)
        if (request_body.declared_bytes(request.scope) or 0) > MAX_UPLOAD_BYTES + _FORM_BYTES:
            raise _too_large()
        declared = request.headers.get("content-type", "")
        if declared.lower().startswith(_FORM):
            stored = await self._from_form(request, caller.key_id)
        else:
            stored = await self._save(request.stream(), declared, x_filename, caller.key_id)
        kind, expires_at = uploads.kind_of(stored.mimetype), int((time.time() + UNUSED_S) * 1000)
        return StoredUpload.of(stored, upload_id=stored.id, kind=kind, expires_at=expires_at)

    async def _from_form(self, request: Request, owner: str) -> Upload:
        # Starlette writes a form to disk before this code sees the file, so its size is limited here.
        receive = request_body.limited(request.receive, lambda: MAX_UPLOAD_BYTES + _FORM_BYTES, _too_large())
        try:
            async with Request(request.scope, receive).form(max_files=1, max_fields=10) as form:
                file = form.get("file")
                if not isinstance(file, UploadFile):
                    raise Refused("BAD_FORM", "The form has no file in the field `file`.")
                return await self._save(_chunks(file), file.content_type or "", file.filename or "", owner)
        except (MultiPartException, HTTPException) as error:
            raise Refused("BAD_FORM", "The form cannot be parsed. Send one file in the field `file`.") from error

    async def _save(self, chunks: AsyncIterator[bytes], declared: str, filename: str, owner: str) -> Upload:
        kind, name = _type(declared), _clean(filename)
        return await uploads.save(self._settings, chunks, mimetype=kind, filename=name, owner=owner)


def _too_large() -> Refused:
    return Refused("FILE_TOO_LARGE", f"A file has at most {MAX_UPLOAD_BYTES} bytes.", 413, limit=MAX_UPLOAD_BYTES)


async def _chunks(file: UploadFile) -> AsyncIterator[bytes]:
    while chunk := await file.read(_CHUNK):
        yield chunk


def _type(declared: str) -> str:
    if not declared:
        return "application/octet-stream"
    if not _MIMETYPE.fullmatch(declared) or len(declared) > 120:
        raise Refused("UNSUPPORTED_TYPE", "Content-Type must be a media type such as image/png.", 415)
    return declared


def _clean(name: str) -> str:
    bare = name.replace("\\", "/").rpartition("/")[2]
    return "".join(sign for sign in bare if sign.isprintable())[:255]
