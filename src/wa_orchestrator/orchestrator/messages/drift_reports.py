"""Reports of workers about parts of the protocol that they do not know."""

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.domain.workers import drift
from wa_orchestrator.domain.workers.worker_events import ProtocolDrift, WorkerEvent
from wa_orchestrator.store.events import drift as store
from wa_orchestrator.store.records import Session

log = structlog.get_logger(__name__)


async def on_protocol_drift(context: Context, session: Session, event: WorkerEvent[ProtocolDrift]) -> None:
    """Handle PROTOCOL_DRIFT: count each shape. A report repeated after a crash counts twice, which harms nobody."""
    for sighting in drift.sightings(event.payload.shapes):
        if await store.record(context.scripts, session.id, sighting):
            log.warning("drift.new", session=session.id, shape=str(sighting.shape))
