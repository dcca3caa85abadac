"""Pauses a phone that WhatsApp has banned."""

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.messages.session_pace import BAN_SIGNAL
from wa_orchestrator.store.messages import holds
from wa_orchestrator.store.messages.holds import Hold
from wa_orchestrator.store.records import Session
from wa_orchestrator.timestamps import FOREVER_MS

log = structlog.get_logger(__name__)


async def place(context: Context, session: Session, *, until_ms: int | None = None) -> None:
    """Pause the session's phone, whichever session sends for it now or later. A person lifts the hold."""
    if not session.phone:
        return  # nothing can be queued for it
    hold = Hold(holds.of_phone(session.phone), until_ms or FOREVER_MS, BAN_SIGNAL, holds.SERVER, session.id)
    if await holds.put(context.scripts, hold) == holds.Placed():
        log.error("session.held_after_ban", session=session.id, until_ms=until_ms)
