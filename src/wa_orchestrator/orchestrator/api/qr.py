"""The QR or pairing code that links a phone, as text and as a picture."""

import io
import json
from dataclasses import dataclass

import segno

from wa_orchestrator.context import Context
from wa_orchestrator.errors import Refused
from wa_orchestrator.store import keys
from wa_orchestrator.store.records import Session


@dataclass(frozen=True, slots=True, repr=False)
class LinkingCode:
    """The text of a QR code or a pairing code, when it expires, and since when it is shown."""

    qr: str
    code: str
    expires_at_ms: int
    at_ms: int


async def code_of(context: Context, session: Session) -> LinkingCode:
    """Return the code to scan or to enter; raise `Refused` with the session's status when there is none."""
    text = await context.redis.get(keys.qr(session.id))
    if text is None or session.status != "qr_ready":
        text = (
            f"Session {session.id} has no code: it is {session.status}. GET /api/sessions/{session.id}/status says why."
        )
        refused = Refused("NO_QR", text, 404)
        refused.details.update(sessionId=session.id, status=session.status, reason=session.reason or None)
        raise refused
    raw = json.loads(text)
    return LinkingCode(raw.get("qr", ""), raw.get("code", ""), raw["expires_at_ms"], raw.get("at_ms", 0))


def picture(text: str, kind: str) -> bytes:
    """Draw a QR as `png` or `svg`."""
    drawn = io.BytesIO()
    segno.make(text, error="l", micro=False).save(drawn, kind=kind, scale=8, border=4)
    return drawn.getvalue()
