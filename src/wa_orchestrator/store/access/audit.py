"""Audit log: an append-only stream of what operators did."""

import json
from typing import Any

import structlog

from wa_orchestrator.logs import redact
from wa_orchestrator.store import keys
from wa_orchestrator.store.engine.scripts import Scripts
from wa_orchestrator.store.records import Entry

MOST = 100_000
log = structlog.get_logger(__name__)


async def record(scripts: Scripts, by: str, action: str, target: str, **details: object) -> None:
    """Append that `by` (a key id) did `action` (`session.restart`) to `target`. Secrets in `details` are hidden."""
    entry: dict[Any, Any] = {
        "at": await scripts.now_ms(),
        "by": by,
        "action": action,
        "target": target,
        "details": json.dumps(redact(details), ensure_ascii=False),
    }
    await scripts.redis.xadd(keys.AUDIT, entry, maxlen=MOST, approximate=True)
    log.info("audit", by=by, action=action, target=target)


async def read(scripts: Scripts, *, before: str | None, most: int) -> list[Entry]:
    """Return entries older than the cursor `before`, the newest first."""
    raw: Any = await scripts.redis.xrevrange(keys.AUDIT, max=f"({before}" if before else "+", min="-", count=most)
    return [Entry(cursor, fields) for cursor, fields in raw]
