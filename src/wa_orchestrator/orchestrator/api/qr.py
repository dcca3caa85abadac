"""The code that links a phone, as text and as a picture."""

import io
import json
from dataclasses import dataclass

import segno

from wa_orchestrator.context import Context
from wa_orchestrator.errors import Refused
from wa_orchestrator.store import keys
from wa_orchestrator.store.records import Session


@dataclass(frozen=True, slots=True, repr=False)
class Code:
    """A QR's text or a pairing code, until when it is good, and since when it is shown."""

    qr: str
    code: str
    expires_at_ms: int
    at_ms: int


async def code_of(context: Context, session: Session) -> Code:
    """Give the code that waits to be scanned or entered, or raise `Refused` with the session's status."""
    text = await context.redis.get(keys.qr(session.id))
    if text is None or session.status != "qr_ready":
        what = f"GET /api/sessions/{session.id}/status says what it waits for."
        text = f"Session {session.id} shows no code just now; it is {session.status}. {what}"
        refused = Refused("NO_QR", text, 404)
        refused.details.update(status=session.status, reason=session.reason or None)
        raise refused
    raw = json.loads(text)
    return Code(raw.get("qr", ""), raw.get("code", ""), raw["expires_at_ms"], raw.get("at_ms", 0))


def picture(text: str, kind: str) -> bytes:
    """Draw a QR as `png` or `svg`."""
    drawn = io.BytesIO()
    segno.make(text, error="l", micro=False).save(drawn, kind=kind, scale=8, border=4)
    return drawn.getvalue()
