"""What operators did: appended to a stream, never changed."""

import json
from typing import Any

import structlog

from wa_orchestrator.context import Context
from wa_orchestrator.logs import redact
from wa_orchestrator.store import keys
from wa_orchestrator.store.records import Entry
from wa_orchestrator.web.auth import Caller

MOST = 100_000
log = structlog.get_logger(__name__)


async def record(context: Context, caller: Caller, action: str, target: str, **details: object) -> None:
    """Write down that `caller` did `action` (`session.restart`) to `target`. Secrets in `details` are hidden."""
    entry: dict[Any, Any] = {
        "at": await context.scripts.now_ms(),
        "by": caller.key_id,
        "action": action,
        "target": target,
        "details": json.dumps(redact(details), ensure_ascii=False),
    }
    await context.redis.xadd(keys.AUDIT, entry, maxlen=MOST, approximate=True)
    log.info("audit", by=caller.key_id, action=action, target=target)


async def read(context: Context, *, before: str | None, most: int) -> list[Entry]:
    """Give entries, the newest first, older than the cursor `before`."""
    raw: Any = await context.redis.xrevrange(keys.AUDIT, max=f"({before}" if before else "+", min="-", count=most)
    return [Entry(cursor, fields) for cursor, fields in raw]
