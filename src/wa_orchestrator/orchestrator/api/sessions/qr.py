"""The QR or pairing code that links a phone, as text and as a picture."""

import base64
import io
from typing import Any

import segno
from fastapi import Response
from fastapi.responses import JSONResponse
from pydantic import Field

from wa_orchestrator.context import Context
from wa_orchestrator.domain.sessions.session import State
from wa_orchestrator.errors import Refused
from wa_orchestrator.store.records import Session
from wa_orchestrator.store.sessions import link_codes
from wa_orchestrator.store.sessions.link_codes import StoredLinkCode
from wa_orchestrator.web.models import OptionalTimestamp, ResponseModel
from wa_orchestrator.web.problems import responses

_NO_STORE = {"Cache-Control": "no-store"}


class LinkCode(ResponseModel):
    """The code that links a phone: a QR code, or 8 characters to type."""

    expires_at: OptionalTimestamp
    shown_at: OptionalTimestamp
    qr: str | None = Field(None, description="The text of the QR code.")
    image: str | None = Field(None, description="The QR code as a `data:` URL with a PNG.")
    code: str | None = Field(None, description="Instead of `qr`, where the phone enters a code.", examples=["ABCD1234"])


_PICTURE = {"schema": {"type": "string", "format": "binary"}}
#: For OpenAPI.
RESPONSES: dict[int | str, dict[str, Any]] = {
    **responses(NO_SUCH_SESSION=404, NO_QR=404),
    200: {"model": LinkCode, "content": {"image/png": _PICTURE, "image/svg+xml": _PICTURE}},
}


async def answer(context: Context, session: Session, accept: str) -> Response:
    """Return the code to scan or to enter, in the form of the header `Accept`."""
    code = await _code_of(context, session)
    for kind, mimetype in (("png", "image/png"), ("svg", "image/svg+xml")):
        if mimetype in accept and code.qr:
            return Response(_picture(code.qr, kind), media_type=mimetype, headers=_NO_STORE)
    if code.qr:
        image = base64.b64encode(_picture(code.qr, "png")).decode()
        linked_by = {"qr": code.qr, "image": f"data:image/png;base64,{image}"}
    else:
        linked_by = {"code": code.code}
    shown = LinkCode.model_validate({"expires_at": code.expires_at_ms, "shown_at": code.at_ms, **linked_by})
    return JSONResponse(shown.model_dump(by_alias=True, exclude_unset=True), headers=_NO_STORE)


async def _code_of(context: Context, session: Session) -> StoredLinkCode:
    code = await link_codes.get(context.scripts, session.id)
    if code is not None and session.status == State.QR_READY:
        return code
    text = f"Session {session.id} has no code: it is {session.status}. GET /api/sessions/{session.id}/status says why."
    refused = Refused("NO_QR", text, 404)
    refused.details.update(sessionId=session.id, status=session.status, reason=session.reason or None)
    raise refused


def _picture(text: str, kind: str) -> bytes:
    drawn = io.BytesIO()
    segno.make(text, error="l", micro=False).save(drawn, kind=kind, scale=8, border=4)
    return drawn.getvalue()
