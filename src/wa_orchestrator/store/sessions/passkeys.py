"""A session's linking by passkey: what WhatsApp asked, how far it is, and which answers were used."""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any, Final

from wa_orchestrator.domain.ids import SessionId
from wa_orchestrator.domain.stream_events import EventType, PasskeyStep
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.events import event_stream

_KEPT_MS: Final = 15 * 60_000


@dataclass(frozen=True, slots=True, repr=False)
class PasskeyCeremony:
    """One ceremony. `stage` is required, sent, confirm, pairing or failed; `reason` and `retry` belong to a failure."""

    stage: str
    epoch: int
    at_ms: int
    options: str = ""
    expires_at_ms: int = 0
    code: str = ""
    auto: bool = False
    reason: str = ""
    retry: str = ""


async def get(scripts: Scripts, session_id: str) -> PasskeyCeremony | None:
    text: Any = await scripts.redis.get(keys.passkey(session_id))
    return None if text is None else PasskeyCeremony(**json.loads(text))


async def put(scripts: Scripts, session_id: str, ceremony: PasskeyCeremony) -> None:
    """Store how far a ceremony is, in one step with the event: a page that was rendered before reads it from there."""
    step = PasskeyStep(SessionId(session_id), ceremony.stage, ceremony.reason or None)
    async with scripts.redis.pipeline(transaction=True) as pipe:
        pipe.set(keys.passkey(session_id), json.dumps(asdict(ceremony)), px=_KEPT_MS)
        event_stream.emit_in(pipe, EventType.SESSION_PASSKEY, step, at_ms=await scripts.now_ms(), history=session_id)
        await pipe.execute()


async def delete(scripts: Scripts, session_id: str) -> None:
    await scripts.redis.delete(keys.passkey(session_id))


async def use(scripts: Scripts, session_id: str, challenge: str) -> bool:
    """Mark a request as answered; False when it was answered before. The answer itself is not stored."""
    digest = hashlib.sha256(challenge.encode()).hexdigest()[:32]
    return bool(await scripts.redis.set(keys.passkey_used(session_id, digest), 1, nx=True, px=_KEPT_MS))
