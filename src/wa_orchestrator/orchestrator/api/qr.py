"""The QR or pairing code that links a phone, as text and as a picture."""

import io

import segno

from wa_orchestrator.context import Context
from wa_orchestrator.domain.session import State
from wa_orchestrator.errors import Refused
from wa_orchestrator.store.records import Session
from wa_orchestrator.store.sessions import link_codes
from wa_orchestrator.store.sessions.link_codes import StoredLinkCode


async def code_of(context: Context, session: Session) -> StoredLinkCode:
    """Return the code to scan or to enter; raise `Refused` with the session's status when there is none."""
    code = await link_codes.get(context.scripts, session.id)
    if code is not None and session.status == State.QR_READY:
        return code
    text = f"Session {session.id} has no code: it is {session.status}. GET /api/sessions/{session.id}/status says why."
    refused = Refused("NO_QR", text, 404)
    refused.details.update(sessionId=session.id, status=session.status, reason=session.reason or None)
    raise refused


def picture(text: str, kind: str) -> bytes:
    """Draw a QR as `png` or `svg`."""
    drawn = io.BytesIO()
    segno.make(text, error="l", micro=False).save(drawn, kind=kind, scale=8, border=4)
    return drawn.getvalue()
