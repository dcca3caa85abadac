"""The QR code or pairing code with which a session can be linked, until it expires."""

import json
from dataclasses import dataclass
from typing import Any

from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts


@dataclass(frozen=True, slots=True, repr=False)
class StoredLinkCode:
    """The text of a QR code or a pairing code (the other one is empty), when it expires, and since when it is shown."""

    qr: str
    code: str
    expires_at_ms: int
    at_ms: int


async def get(scripts: Scripts, session_id: str) -> StoredLinkCode | None:
    text: Any = await scripts.redis.get(keys.qr(session_id))
    if text is None:
        return None
    raw = json.loads(text)
    return StoredLinkCode(raw.get("qr", ""), raw.get("code", ""), raw["expires_at_ms"], raw.get("at_ms", 0))


async def put(scripts: Scripts, session_id: str, code: StoredLinkCode) -> None:
    text = {"qr": code.qr} if code.qr else {"code": code.code}
    record = json.dumps({**text, "expires_at_ms": code.expires_at_ms, "at_ms": code.at_ms})
    await scripts.redis.set(keys.qr(session_id), record, pxat=code.expires_at_ms)


async def delete(scripts: Scripts, session_id: str) -> None:
    """Remove a session's code: it is linked."""
    await scripts.redis.delete(keys.qr(session_id))
