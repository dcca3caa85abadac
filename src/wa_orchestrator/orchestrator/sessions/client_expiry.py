"""WhatsApp's announcements of the day from which it refuses a client version."""

import json
from datetime import UTC, datetime
from typing import Final

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.workers.worker_events import ClientExpiration, WorkerEvent
from wa_orchestrator.store.records import Session
from wa_orchestrator.store.sessions import client_version

#: The end of the calendar, for a worker that names a later day.
_LAST_MS: Final = 253_402_300_799_000

log = structlog.get_logger(__name__)


async def on_client_expiration(context: Context, session: Session, event: WorkerEvent[ClientExpiration]) -> None:
    """Handle CLIENT_EXPIRATION: emit one event, although every session reports it."""
    told = event.payload
    at_ms = min(told.expires_at_ms, _LAST_MS)
    date = datetime.fromtimestamp(at_ms / 1000, tz=UTC).strftime("%Y-%m-%d") if at_ms else ""
    details = json.dumps({"date": date, "revision": told.revision})
    if await client_version.note_expiry(context.scripts, at_ms, details):
        log.warning("client_version.expiry", session=session.id, date=date, revision=told.revision)
